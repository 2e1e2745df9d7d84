package node

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-cni/holdfast/chaining"
)

// Answer is what a node's runtime says of itself (CRI: Version, and Status with verbose).
type Answer struct {
	Socket           string
	Runtime, Version string // Containerd, CRIO, or the name another gives itself
	// ConfDir and BinDirs are where it looks; empty where it does not say.
	ConfDir string
	BinDirs []string
	// Tells: it says what it loaded. Then Loaded is the list that pods get now, nil where there is none, or LoadedErr why that
	// list cannot be judged.
	Tells     bool
	Loaded    *chaining.List
	LoadedErr error
	// Failure is why it could load nothing when it last tried; empty where it could.
	Failure string
	// NotReady is why its network is not ready; empty where it is.
	NotReady string
}

// Runtimes from these versions on append drop-ins: their libcni is v1.3.0 or later.
var dropinsSince = map[string][2]int{Containerd: {2, 1}, CRIO: {1, 33}}

// Dropins reports whether a runtime of this version reads them. One that is not known does not.
func (a *Answer) Dropins() bool {
	since, known := dropinsSince[a.Runtime]
	numbers := strings.SplitN(strings.TrimPrefix(a.Version, "v"), ".", 3)
	if !known || len(numbers) < 2 {
		return false
	}
	major, err := strconv.Atoi(numbers[0])
	if err != nil {
		return false
	}
	minor, err := strconv.Atoi(numbers[1])
	if err != nil {
		return false
	}
	return major > since[0] || major == since[0] && minor >= since[1]
}

// host puts what the runtime says over what files say.
func (a *Answer) host(h *Host) {
	said := "asked of the runtime at " + a.Socket
	h.Runtime, h.RuntimeWhy = a.Runtime, said
	if a.ConfDir != "" {
		h.ConfDir, h.ConfDirWhy = a.ConfDir, said
	}
	if len(a.BinDirs) > 0 {
		h.BinDirs = a.BinDirs
	}
}

// judgeLoaded says whether the list that pods get now is chained, where the one on disk is.
func (e *examination) judgeLoaded(a *Answer, err error) Verdict {
	switch {
	case err != nil:
		return verdict(chaining.RuntimeNotLoaded, "the runtime cannot be asked: "+err.Error())
	case !a.Tells && a.NotReady != "":
		return verdict(chaining.RuntimeNotLoaded, "its network is not ready: "+a.NotReady)
	case !a.Tells:
		return verdict(chaining.Chained, "")
	case a.LoadedErr != nil:
		return verdict(chaining.RuntimeNotLoaded, "what it loaded cannot be judged: "+a.LoadedErr.Error())
	case a.Loaded == nil && a.Failure != "":
		return verdict(chaining.RuntimeNotLoaded, "it could load nothing: "+a.Failure)
	case a.Loaded == nil:
		return verdict(chaining.RuntimeNotLoaded, "it has loaded nothing")
	}
	found := e.check(*a.Loaded)
	if found.Reason == chaining.Chained {
		return verdict(chaining.Chained, "")
	}
	return verdict(chaining.RuntimeNotLoaded, fmt.Sprintf("in network %s, which it has loaded, %s", a.Loaded.Name(), found.Reason.Means()), found.Differences...)
}

// Asked is the runtime's answer in a report.
type Asked struct {
	Socket  string   `json:"socket"`
	Version string   `json:"version,omitempty"`
	Network string   `json:"network,omitempty"`
	Plugins []string `json:"plugins,omitempty"`
	Failure string   `json:"failure,omitempty"`
}

func (a *Answer) asked() *Asked {
	if a == nil {
		return nil
	}
	said := &Asked{Socket: a.Socket, Version: a.Version, Failure: a.Failure}
	if a.NotReady != "" && said.Failure == "" {
		said.Failure = a.NotReady
	}
	if a.Loaded != nil {
		said.Network, said.Plugins = a.Loaded.Name(), types(*a.Loaded)
	}
	return said
}
