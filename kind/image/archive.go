package image

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"runtime"
)

// picture is an image before it is written: a name, its layers from the bottom up, and how it starts.
type picture struct {
	name       string
	layers     []layer
	entrypoint []string
	env        []string
	stopSignal string
}

const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// write writes the image as the archive that docker load and ctr images import read (Docker image specification v1.2).
func (p picture) write(to io.Writer) error {
	type fields = map[string]any
	var files, digests []string
	for _, l := range p.layers {
		files = append(files, l.digest+"/layer.tar")
		digests = append(digests, "sha256:"+l.digest)
	}
	config, err := json.Marshal(fields{
		"architecture": runtime.GOARCH, "os": "linux", "created": epoch.UTC(),
		"config": fields{"Env": append([]string{searchPath}, p.env...), "Entrypoint": p.entrypoint, "StopSignal": p.stopSignal},
		"rootfs": fields{"type": "layers", "diff_ids": digests},
	})
	if err != nil {
		return err
	}
	sum := sha256.Sum256(config)
	configName := hex.EncodeToString(sum[:]) + ".json"
	manifest, err := json.Marshal([]fields{{"Config": configName, "RepoTags": []string{p.name}, "Layers": files}})
	if err != nil {
		return err
	}

	archive := tar.NewWriter(to)
	for i, l := range p.layers {
		if err := addFile(archive, files[i], l.path); err != nil {
			return err
		}
	}
	return errors.Join(addBytes(archive, configName, config), addBytes(archive, "manifest.json", manifest), archive.Close())
}

func addFile(archive *tar.Writer, name, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: info.Size(), ModTime: epoch}); err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return err
}

func addBytes(archive *tar.Writer, name string, content []byte) error {
	if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), ModTime: epoch}); err != nil {
		return err
	}
	_, err := archive.Write(content)
	return err
}
