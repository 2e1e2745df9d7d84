package helm

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
)

// "all:" because Go's embed would leave out the templates whose names start with an underscore.
//
//go:embed all:holdfast
var files embed.FS

const root = "holdfast"

// Chart returns Holdfast's own chart. Every call loads it anew, since Helm changes the charts it renders.
func Chart() (*chart.Chart, error) {
	var loaded []*archive.BufferedFile
	err := fs.WalkDir(files, root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := files.ReadFile(path)
		if err != nil {
			return err
		}
		loaded = append(loaded, &archive.BufferedFile{Name: strings.TrimPrefix(path, root+"/"), Data: data})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the embedded chart: %w", err)
	}
	c, err := loader.LoadFiles(loaded)
	if err != nil {
		return nil, fmt.Errorf("load the embedded chart: %w", err)
	}
	return c, nil
}

// LoadDir returns the chart in a directory, for example Cilium's own.
func LoadDir(dir string) (*chart.Chart, error) {
	c, err := loader.LoadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("load chart %q: %w", dir, err)
	}
	return c, nil
}
