package node

import (
	"fmt"
	"slices"

	"github.com/holdfast-cni/holdfast/chaining"
)

// Report is what is known of a node, for people as String and for programs as JSON.
type Report struct {
	// Proof is what the verdict rests on: ProofFile or ProofRuntime.
	Proof    string    `json:"proof"`
	Runtime  Fact      `json:"runtime"`
	ConfDir  Fact      `json:"confDir"`
	BinDirs  []string  `json:"binDirs,omitempty"`
	Asked    *Asked    `json:"asked,omitempty"`
	Dropins  Dropins   `json:"dropIns"`
	Files    []File    `json:"files"`
	Renamed  []Renamed `json:"renamed,omitempty"`
	Ignored  []string  `json:"ignored,omitempty"`
	Loaded   *Loaded   `json:"loaded,omitempty"`
	Strategy *Strategy `json:"strategy,omitempty"`
	Verdict  Verdict   `json:"verdict"`
	Notes    []string  `json:"notes,omitempty"`
}

// Fact is a value and where it is from.
type Fact struct {
	Value string `json:"value"`
	Why   string `json:"why"`
}

// Dropins says whether the runtime reads them, and which there are for the list that counts.
type Dropins struct {
	Read  bool     `json:"read"`
	Why   string   `json:"why"`
	Dir   string   `json:"dir,omitempty"`
	Link  bool     `json:"link,omitempty"`
	Files []string `json:"files,omitempty"`
}

// What becomes of a file.
const (
	StateLoaded  = "loaded"  // it is the one that counts
	StateInvalid = "invalid" // it is the one that counts, and cannot be chained
	StateSkipped = "skipped" // the runtime passes over it
	StateLater   = "later"   // it sorts after the one that counts
)

// File is one that the runtime looks at.
type File struct {
	Name    string   `json:"name"`
	State   string   `json:"state"`
	Network string   `json:"network,omitempty"`
	Plugins []string `json:"plugins,omitempty"`
	Error   string   `json:"error,omitempty"`
}

// Renamed is a file that Cilium has put aside. Ours: it has the plugin's entry.
type Renamed struct {
	Name    string   `json:"name"`
	By      string   `json:"by"`
	Plugins []string `json:"plugins,omitempty"`
	Ours    bool     `json:"ours"`
}

// Loaded is the list that counts, with its drop-ins.
type Loaded struct {
	File       string   `json:"file"`
	Why        string   `json:"why"`
	Network    string   `json:"network,omitempty"`
	CNIVersion string   `json:"cniVersion,omitempty"`
	Plugins    []Plugin `json:"plugins,omitempty"`
}

// Plugin is one of its plugins, in the order of ADD.
type Plugin struct {
	Type string `json:"type"`
	From string `json:"from"`
	// Binary is the executable's path, "missing", or empty where no bin directory is under the root.
	Binary string `json:"binary,omitempty"`
	// Entry: it is the one that is to be chained.
	Entry bool `json:"entry,omitempty"`
}

// Missing is what Plugin.Binary says where no bin directory has the executable.
const Missing = "missing"

// Strategy is how the entry is, or would be, chained.
type Strategy struct {
	Name chaining.Strategy `json:"name"`
	Why  string            `json:"why"`
}

// Verdict is whether the entry is chained, and the reason and fix where it is not.
type Verdict struct {
	Chained     bool                  `json:"chained"`
	Type        string                `json:"type"`
	Compared    bool                  `json:"compared"` // with plugin.json; else only presence and place count
	Reason      chaining.Reason       `json:"reason,omitempty"`
	Means       string                `json:"means,omitempty"`
	Message     string                `json:"message,omitempty"` // what exactly, where there is more to say
	Differences []chaining.Difference `json:"differences,omitempty"`
	Fix         string                `json:"fix,omitempty"`
}

func verdict(r chaining.Reason, message string, differences ...chaining.Difference) Verdict {
	return Verdict{Reason: r, Means: r.Means(), Message: message, Differences: differences, Fix: r.Fix()}
}

// NewVerdict is one for a reason, with what is wrong in particular.
func NewVerdict(r chaining.Reason, message string) Verdict {
	v := verdict(r, message)
	v.Chained = r == chaining.Chained
	return v
}

// Sentence is what is wrong, and the fix, for a condition; empty for a good one.
func (v Verdict) Sentence() string {
	if v.Reason == chaining.Chained {
		return ""
	}
	text := v.Means
	if v.Message != "" {
		text += ": " + v.Message
	}
	for i, d := range v.Differences {
		const most = 3
		if i == most {
			text += fmt.Sprintf("; and %d more", len(v.Differences)-most)
			break
		}
		text += "; " + d.String()
	}
	return text + ". Fix: " + v.Fix + "."
}

// Entry reports that the verdict is about the plugin's entry in a list that is otherwise good.
func (v Verdict) Entry() bool {
	return slices.Contains([]chaining.Reason{chaining.EntryMissing, chaining.EntryDiffers, chaining.EntryNotLast, chaining.EntryDuplicated}, v.Reason)
}

// Network is the one that counts; empty where there is none.
func (r Report) Network() string {
	if r.Loaded == nil {
		return ""
	}
	return r.Loaded.Network
}
