package image

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// layer is one layer of an image: an uncompressed tar file and its digest.
type layer struct {
	path, digest string
}

// layerWriter writes a layer. The first error sticks and is returned by close, so that a recipe reads as a list.
type layerWriter struct {
	file *os.File
	hash hash.Hash
	tar  *tar.Writer
	dirs map[string]bool
	err  error
}

// epoch makes a layer depend on its content alone.
var epoch = time.Unix(0, 0)

func newLayer(path string) *layerWriter {
	w := &layerWriter{hash: sha256.New(), dirs: map[string]bool{"": true, ".": true}}
	if w.file, w.err = os.Create(path); w.err == nil {
		w.tar = tar.NewWriter(io.MultiWriter(w.file, w.hash))
	}
	return w
}

func (w *layerWriter) close() (layer, error) {
	if w.file == nil {
		return layer{}, w.err
	}
	err := errors.Join(w.finish(), w.file.Close())
	return layer{path: w.file.Name(), digest: hex.EncodeToString(w.hash.Sum(nil))}, err
}

func (w *layerWriter) finish() error {
	if w.err != nil {
		return w.err
	}
	return w.tar.Close()
}

// entry writes one header and its content, with the folders above it.
func (w *layerWriter) entry(h *tar.Header, content io.Reader) {
	h.Name = strings.TrimPrefix(h.Name, "/")
	w.dir(path.Dir(strings.TrimSuffix(h.Name, "/")), 0o755)
	if w.err != nil {
		return
	}
	if h.ModTime.IsZero() {
		h.ModTime = epoch
	}
	if w.err = w.tar.WriteHeader(h); w.err == nil && content != nil {
		_, w.err = io.Copy(w.tar, content)
	}
}

func (w *layerWriter) dir(name string, mode int64) {
	name = strings.Trim(name, "/")
	if w.dirs[name] {
		return
	}
	w.dirs[name] = true
	w.entry(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode}, nil)
}

func (w *layerWriter) link(name, target string) {
	w.entry(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}, nil)
}

func (w *layerWriter) text(name string, mode int64, content string) {
	w.entry(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content))}, strings.NewReader(content))
}

// copy adds the file at source.
func (w *layerWriter) copy(name string, mode int64, source string) {
	if w.err != nil {
		return
	}
	file, err := os.Open(source)
	if err != nil {
		w.err = err
		return
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		w.err = err
		return
	}
	w.entry(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: info.Size()}, file)
}

// tree adds the files and folders below source. Where mode is not 0 every file gets it.
func (w *layerWriter) tree(name string, mode int64, source string) {
	if w.err != nil {
		return
	}
	w.err = filepath.WalkDir(source, func(from string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		to := path.Join(name, strings.TrimPrefix(from, source))
		permissions := int64(info.Mode().Perm())
		switch {
		case entry.IsDir():
			w.dir(to, permissions|0o700)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(from)
			if err != nil {
				return err
			}
			w.link(to, target)
		case info.Mode().IsRegular():
			if mode != 0 {
				permissions = mode
			}
			w.copy(to, permissions, from)
		}
		return w.err
	})
}
