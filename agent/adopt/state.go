package adopt

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// States is where the state files are.
const States = Folder + "/pods"

const (
	suffix = ".json"
	// unfinished is how old a file must be that a killed plugin left half written, before it is removed.
	unfinished = time.Minute
)

// Store keeps one file per sandbox, <container id>.json, written before the agent is asked and removed at DEL. A file means that its
// namespace was locked, not that it ever had a lease. It belongs to the first interface for which the sandbox was locked.
type Store struct{ Folder string }

// Write keeps a request, whole or not at all.
func (s Store) Write(r Request) error {
	e, err := r.Encode()
	if err != nil {
		return fmt.Errorf("keep the state of container %.80q: %w", r.ContainerID, err)
	}
	return s.WriteEncoded(e)
}

// WriteEncoded is Write of what was encoded.
func (s Store) WriteEncoded(e Encoded) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("keep the state of container %.80q: %w", e.containerID, err)
		}
	}()
	if err := errors.Join(private(filepath.Dir(s.Folder)), private(s.Folder)); err != nil {
		return err
	}
	file, err := os.CreateTemp(s.Folder, ".new-*") // mode 0600
	if err != nil {
		return err
	}
	// Not synced: what a crash of the node could lose is of another boot afterwards.
	_, err = file.Write(e.data)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), s.path(e.containerID))
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}

// Read returns what was kept of a container in this boot. It fails with ErrNoState, ErrState or ErrOtherBoot; whether the file is
// about the namespace at hand is to be asked with In.
func (s Store) Read(containerID string) (r Request, err error) {
	defer func() {
		if err != nil {
			r, err = Request{}, fmt.Errorf("read the state of container %.80q: %w", containerID, err)
		}
	}()
	if r, err = s.whole(containerID); err != nil {
		return r, err
	}
	boot, err := Boot()
	if err != nil {
		return r, err
	}
	if r.Boot != boot {
		return r, fmt.Errorf("%w (%s)", ErrOtherBoot, r.Boot)
	}
	return r, nil
}

// whole reads a state file of any boot.
func (s Store) whole(containerID string) (r Request, err error) {
	if !SafeID(containerID) {
		return r, fmt.Errorf("%w: not a container id", ErrState)
	}
	data, err := readAll(s.path(containerID))
	if errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("%w: %w", ErrNoState, err)
	}
	if err != nil {
		return r, fmt.Errorf("%w: %w", ErrState, err)
	}
	if r, err = parseState(data); err != nil {
		return r, err
	}
	if r.ContainerID != containerID {
		return r, fmt.Errorf("%w: it is of container %q", ErrState, r.ContainerID)
	}
	return r, nil
}

func parseState(data []byte) (r Request, err error) {
	if r, err = decode(data); err != nil {
		return Request{}, fmt.Errorf("%w: %w", ErrState, err)
	}
	if !json.Valid(r.Record) {
		return Request{}, fmt.Errorf("%w: its record is cut short", ErrState)
	}
	return r, nil
}

// readAll reads a file of ours, and nothing that was put in its place: no link, no FIFO, nothing endless.
func readAll(path string) (data []byte, err error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if info, err := file.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	data, err = io.ReadAll(io.LimitReader(file, maxRequest+1))
	if len(data) > maxRequest {
		return nil, fmt.Errorf("%s: longer than %d bytes", path, maxRequest)
	}
	return data, err
}

// Attachment is an interface of a sandbox, as the CNI specification names it to DEL and GC.
type Attachment struct{ ContainerID, IfName string }

// Forget forgets what was kept for the attachment, and nothing that was kept for another of the same sandbox. What doesn't say whose it
// is stays, with an error; what was never kept is forgotten already.
func (s Store) Forget(a Attachment) error {
	if !SafeID(a.ContainerID) {
		return nil
	}
	r, err := s.whole(a.ContainerID)
	switch {
	case errors.Is(err, ErrNoState):
		return nil
	case err == nil && (r.IfName == "" || a.IfName == ""):
		err = ErrWhose
	case err == nil && r.IfName != a.IfName:
		return nil
	}
	if err != nil {
		return fmt.Errorf("forget interface %q of container %q: %w", a.IfName, a.ContainerID, err)
	}
	return s.Remove(a.ContainerID)
}

// Remove forgets a container; one that was never kept is forgotten already.
func (s Store) Remove(containerID string) error {
	if !SafeID(containerID) {
		return nil
	}
	if err := os.Remove(s.path(containerID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget container %q: %w", containerID, err)
	}
	return nil
}

// IDs lists the containers that have a file, readable or not.
func (s Store) IDs() ([]string, error) {
	entries, err := os.ReadDir(s.Folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the state files: %w", err)
	}
	var ids []string
	for _, entry := range entries {
		if id, found := strings.CutSuffix(entry.Name(), suffix); found && SafeID(id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Keep forgets every attachment of the network but those that valid holds, where one without an interface stands for all of its
// sandbox, and removes what killed writers left. What is of another network, or doesn't say of which it is, stays.
func (s Store) Keep(network string, valid map[Attachment]bool) error {
	ids, err := s.IDs()
	errs := []error{err}
	for _, id := range ids {
		r, err := s.whole(id)
		known := err == nil && r.Network != "" && r.IfName != ""
		if known && r.Network == network && !valid[Attachment{id, r.IfName}] && !valid[Attachment{ContainerID: id}] {
			errs = append(errs, s.Remove(id))
		}
	}
	left, err := filepath.Glob(filepath.Join(s.Folder, ".new-*"))
	errs = append(errs, err)
	for _, path := range left {
		if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > unfinished {
			errs = append(errs, os.Remove(path))
		}
	}
	return errors.Join(errs...)
}

func (s Store) path(id string) string { return filepath.Join(s.Folder, id+suffix) }

// Boot tells this boot of the node from every other (random(4): boot_id).
func Boot() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read the boot's id: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}

// private makes a folder for this process's user alone, or makes the one that is there so. A link, or another's folder, is ErrUnsafe.
func private(folder string) error {
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(folder)
	if err != nil {
		return err
	}
	owner, known := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !known || int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("%s: %w", folder, ErrUnsafe)
	}
	if info.Mode().Perm() != 0o700 {
		return os.Chmod(folder, 0o700)
	}
	return nil
}
