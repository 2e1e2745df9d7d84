package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func entries(t *testing.T, content io.Reader) (names []string, bodies map[string]string) {
	t.Helper()
	bodies = map[string]string{}
	for reader := tar.NewReader(content); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return names, bodies
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
		bodies[header.Name] = string(body)
	}
}

func TestLayerHasEveryFolderOnceBeforeWhatIsInIt(t *testing.T) {
	folder := t.TempDir()
	source := filepath.Join(folder, "source", "sub")
	if err := os.MkdirAll(source, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(source, "file"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newLayer(filepath.Join(folder, "layer.tar"))
	w.text("/etc/a", 0o644, "a")
	w.link("etc/b", "a")
	w.tree("usr/share", 0o755, filepath.Join(folder, "source"))
	l, err := w.close()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(l.path)
	if err != nil {
		t.Fatal(err)
	}
	names, _ := entries(t, bytes.NewReader(content))
	want := []string{"etc/", "etc/a", "etc/b", "usr/", "usr/share/", "usr/share/sub/", "usr/share/sub/file"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if digest, err := fileDigest(l.path); err != nil || digest != l.digest {
		t.Errorf("digest = %s, the file's is %s (%v)", l.digest, digest, err)
	}
}

func TestLayerKeepsItsFirstError(t *testing.T) {
	w := newLayer(filepath.Join(t.TempDir(), "layer.tar"))
	w.copy("a", 0o644, "/nonexistent/a")
	w.copy("b", 0o644, "/nonexistent/b")
	if _, err := w.close(); err == nil || !strings.Contains(err.Error(), "/nonexistent/a") {
		t.Errorf("close = %v", err)
	}
}

func TestArchiveNamesItsLayers(t *testing.T) {
	w := newLayer(filepath.Join(t.TempDir(), "layer.tar"))
	w.text("a", 0o644, "a")
	l, err := w.close()
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := (picture{name: "localhost/a:1", layers: []layer{l}, entrypoint: []string{"/a"}}).write(&archive); err != nil {
		t.Fatal(err)
	}
	names, bodies := entries(t, &archive)
	if names[0] != l.digest+"/layer.tar" || len(names) != 3 {
		t.Errorf("entries = %v", names)
	}
	if !strings.Contains(bodies["manifest.json"], `"RepoTags":["localhost/a:1"]`) ||
		!strings.Contains(bodies["manifest.json"], l.digest) || !strings.Contains(bodies[names[1]], `"sha256:`+l.digest+`"`) {
		t.Errorf("manifest.json = %s, configuration = %s", bodies["manifest.json"], bodies[names[1]])
	}
}
