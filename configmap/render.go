package configmap

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-cni/holdfast/chaining"
)

// MaxList is the size, in bytes, beyond which a list is not put into a ConfigMap: an eighth of what one may hold. The status
// ConfigMap holds a copy and what it started from, each as a JSON string, which may take twice the room.
const MaxList = 128 << 10

// MaxPlugin is the size, in bytes, of the largest plugin.json.
const MaxPlugin = 64 << 10

// ErrListMissing reports a chaining mode whose list only its owner can give.
var ErrListMissing = errors.New("the chaining mode needs a list to start from")

// ErrModeUnknown reports a chaining mode that Cilium does not know.
var ErrModeUnknown = errors.New("unknown chaining mode")

// ErrNoCilium reports a list without Cilium's entry: with it Cilium would leave itself out of the node's network.
var ErrNoCilium = errors.New("no plugin of type " + ciliumType)

// Render builds the list that Cilium is to read: Cilium's part, then exactly the plugin's entry. With an existing list
// every byte of it that is not the plugin's own stays; otherwise Cilium's part is what the agent itself would write under
// these settings (cniConfigs in daemon/cmd/cni/config.go). A nil plugin gives Cilium's part alone.
//
// The errors are ErrListMissing, ErrModeUnknown, ErrNoCilium and those of package chaining.
func Render(s Settings, existing *chaining.List, plugin *chaining.Entry) (chaining.List, error) {
	list, err := base(s, existing)
	if err != nil {
		return chaining.List{}, err
	}
	if plugin != nil {
		if list, err = Without(list, plugin.Type()); err != nil {
			return chaining.List{}, err
		}
		if len(list.Find(ciliumType)) == 0 {
			return chaining.List{}, ErrNoCilium // the plugin's own type was Cilium's
		}
		if list, err = list.Append(*plugin); err != nil {
			return chaining.List{}, err
		}
	}
	if size := len(list.Bytes()); size > MaxList {
		return chaining.List{}, fmt.Errorf("%w: the list would have %d bytes, at most %d fit", chaining.ErrTooLarge, size, MaxList)
	}
	return list, nil
}

// Without takes every entry of the type out of the list.
func Without(list chaining.List, pluginType string) (chaining.List, error) {
	for at := list.Find(pluginType); len(at) > 0; at = list.Find(pluginType) {
		var err error
		if list, err = list.Remove(at[len(at)-1]); err != nil {
			return chaining.List{}, err
		}
	}
	return list, nil
}

func base(s Settings, existing *chaining.List) (chaining.List, error) {
	if existing != nil {
		if len(existing.Find(ciliumType)) == 0 {
			return chaining.List{}, ErrNoCilium
		}
		return *existing, nil
	}
	mode := s.ChainingMode()
	if s.ChainingTarget() != "" {
		return chaining.List{}, fmt.Errorf("%w: mode %q chains Cilium into network %q, whose own plugins only the node knows",
			ErrListMissing, mode, s.ChainingTarget())
	}
	name, before, after := ciliumName, "", ""
	entry := ciliumEntry{Type: ciliumType, Debug: s.Get(KeyDebug).On(), LogFile: s.LogFile()}
	switch mode {
	case defaultMode:
	case "portmap":
		name, after = mode, portmapEntry
	case "flannel":
		name, before = mode, flannelEntry+",\n    "+portmapEntry+",\n    "
		entry.ChainingMode = mode
	case "generic-veth":
		return chaining.List{}, fmt.Errorf("%w: mode %q chains Cilium behind other plugins, which only the node knows", ErrListMissing, mode)
	default:
		return chaining.List{}, fmt.Errorf("%w %s", ErrModeUnknown, shorten(mode))
	}
	own, err := json.Marshal(entry)
	if err != nil {
		return chaining.List{}, fmt.Errorf("encode Cilium's entry: %w", err)
	}
	if after != "" {
		after = ",\n    " + after
	}
	return chaining.Parse(fmt.Appendf(nil, listFormat, name, before, own, after))
}

const listFormat = `{
  "cniVersion": "1.0.0",
  "name": %q,
  "plugins": [
    %s%s%s
  ]
}
`

const (
	portmapEntry = `{"type":"portmap","capabilities":{"portMappings":true}}`
	flannelEntry = `{"type":"flannel","delegate":{"hairpinMode":true,"isDefaultGateway":true}}`
)

// ciliumEntry has the fields the agent writes, in its order.
type ciliumEntry struct {
	Type         string `json:"type"`
	ChainingMode string `json:"chaining-mode,omitempty"`
	Debug        bool   `json:"enable-debug"`
	LogFile      string `json:"log-file"`
}

// Compare reports where the list is not one that Cilium can run with the plugin chained last; nothing where it is.
// Lists of a chaining mode other than none keep that mode's name and order.
func Compare(s Settings, list chaining.List, plugin chaining.Entry) []chaining.Difference {
	diffs := shape(s, list)
	return append(diffs, chaining.Check(list, plugin).Differences...)
}

// shape compares the list's name and order with what Cilium expects of a list of its own.
func shape(s Settings, list chaining.List) []chaining.Difference {
	if s.ChainingMode() != defaultMode {
		return nil
	}
	var diffs []chaining.Difference
	if list.Name() != ciliumName {
		diffs = append(diffs, chaining.Difference{Path: "name", Want: `"` + ciliumName + `"`, Have: fmt.Sprintf("%q", list.Name())})
	}
	if first := list.Plugins()[0].Type(); first != ciliumType {
		diffs = append(diffs, chaining.Difference{Path: "plugins[0].type", Want: `"` + ciliumType + `"`, Have: fmt.Sprintf("%q", first)})
	}
	return diffs
}
