//go:build !linux

package install

import (
	"errors"

	"github.com/containernetworking/cni/pkg/invoke"
)

// fileID is a file's own, whatever its name.
type fileID struct{ device, inode uint64 }

func identify(string) (identity, error) { return identity{}, errors.ErrUnsupported }

func identifyDir(string) (fileID, error) { return fileID{}, errors.ErrUnsupported }

func (b *binary) exec() invoke.Exec { return nil }
