package adopt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Version is that of the format. A reader ignores keys that it doesn't know, and refuses another version.
const Version = 1

// Request asks the agent to adopt a pod whose network namespace was locked, without a lease. The same is kept as the pod's state
// file.
type Request struct {
	Version int `json:"version"`
	// ContainerID is the sandbox's, NetNS the path of its namespace as the runtime gave it.
	ContainerID string `json:"containerID"`
	NetNS       string `json:"netns"`
	// Network and IfName are the network list's name and the interface of the ADD that put the lock on, so that GC and DEL of others don't
	// forget it. Empty is not known.
	Network string `json:"network,omitempty"`
	IfName  string `json:"ifname,omitempty"`
	// Device and Inode tell the namespace from every other that exists (lock.ID); Boot is the boot that they are of.
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	Boot   string `json:"boot"`
	// Namespace, Name and UID are the pod's, as CNI_ARGS has them. A static pod's UID is the hash of its file.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Rules is the digest of the rules, Record what the kernel held when they were applied (lock.Record), as one line of JSON.
	Rules  string `json:"rules"`
	Record []byte `json:"-"`
}

// Validate reports everything that keeps r from being a request, joined.
func (r Request) Validate() error {
	var faults []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	refuse(r.Version != Version, "version %d: is not %d", r.Version, Version)
	refuse(!SafeID(r.ContainerID), "containerID %.80q: not a container id", r.ContainerID)
	refuse(!strings.HasPrefix(r.NetNS, "/") || len(r.NetNS) > maxPath, "netns %.80q: not a whole path", r.NetNS)
	refuse(r.Inode == 0, "inode: missing")
	for _, field := range []struct{ name, value string }{
		{"boot", r.Boot}, {"namespace", r.Namespace}, {"name", r.Name}, {"uid", r.UID}, {"rules", r.Rules},
	} {
		refuse(field.value == "" || len(field.value) > maxName, "%s %.80q: empty or too long", field.name, field.value)
	}
	for _, field := range []struct{ name, value string }{{"network", r.Network}, {"ifname", r.IfName}} {
		refuse(len(field.value) > maxName, "%s %.80q: too long", field.name, field.value)
	}
	refuse(len(r.Record) == 0 || string(r.Record) == "null", "record: missing")
	if len(faults) > 0 {
		return fmt.Errorf("%w: %w", ErrRequest, errors.Join(faults...))
	}
	return nil
}

// Encoded is a valid Request as the wire and the state file have it: the plugin writes both, and makes it once. It is two lines of
// JSON, all but the record and the record, so that whoever knows the record by its bytes need not read it.
type Encoded struct {
	containerID string
	data        []byte
}

// Encode fails with ErrRequest.
func (r Request) Encode() (Encoded, error) {
	if err := r.Validate(); err != nil {
		return Encoded{}, err
	}
	head, err := json.Marshal(r)
	return Encoded{r.ContainerID, slices.Concat(head, []byte{'\n'}, r.Record)}, err
}

// decode reads what Encode made, but leaves it to the record's reader whether that is one.
func decode(data []byte) (r Request, err error) {
	head, record, _ := bytes.Cut(data, []byte{'\n'})
	if err := json.Unmarshal(head, &r); err != nil {
		return Request{}, err
	}
	r.Record = record
	return r, r.Validate()
}

// In is nil if r is about the network namespace of this device and inode, else ErrOtherNamespace.
func (r Request) In(device, inode uint64) error {
	if r.Device != device || r.Inode != inode {
		return fmt.Errorf("%w (%d:%d, not %d:%d)", ErrOtherNamespace, r.Device, r.Inode, device, inode)
	}
	return nil
}

const (
	maxName = 253  // a DNS subdomain, the longest name that Kubernetes has
	maxPath = 4095 // PATH_MAX
	maxID   = 200  // with what is put around it, a file name
)

// SafeID reports whether an id is one that the CNI specification allows (section "Parameters": CNI_CONTAINERID), and no longer than
// a file name may be. Such an id is safe in a path.
func SafeID(id string) bool {
	if id == "" || len(id) > maxID {
		return false
	}
	for i, c := range []byte(id) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case i > 0 && (c == '_' || c == '.' || c == '-'):
		default:
			return false
		}
	}
	return true
}
