package configmap

import (
	"fmt"
	"strings"

	"github.com/holdfast-cni/holdfast/chaining"
)

// Severity says how much a finding matters.
type Severity string

// An error keeps the chain from working, or from being kept; a warning works less well than it could; an info is a fact.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// ID names a kind of finding; it is stable, so that alerts and scripts can rely on it.
type ID string

// The kinds of finding. docs/findings.md is generated from Kinds.
const (
	SocketLBInPods            ID = "SocketLBInPods"
	SettingInvalid            ID = "SettingInvalid"
	SettingSpelling           ID = "SettingSpelling"
	CiliumMissing             ID = "CiliumMissing"
	ConfigMapNotReferenced    ID = "ConfigMapNotReferenced"
	ConfigMapKeyDiffers       ID = "ConfigMapKeyDiffers"
	ConfigMapNamespaceDiffers ID = "ConfigMapNamespaceDiffers"
	ConfigMapForeign          ID = "ConfigMapForeign"
	ConfigMapUnwritable       ID = "ConfigMapUnwritable"
	ConfigMapContested        ID = "ConfigMapContested"
	ListInvalid               ID = "ListInvalid"
	ListNameDiffers           ID = "ListNameDiffers"
	ListOrderDiffers          ID = "ListOrderDiffers"
	ListDiffers               ID = "ListDiffers"
	CustomConf                ID = "CustomConf"
	ExclusiveFalse            ID = "ExclusiveFalse"
	WriteConfEmpty            ID = "WriteConfEmpty"
	UninstallOnStop           ID = "UninstallOnStop"
	ChainingModeUnknown       ID = "ChainingModeUnknown"
	ChainingListMissing       ID = "ChainingListMissing"
	ChainingModeDiffers       ID = "ChainingModeDiffers"
	NodeConfigIgnored         ID = "NodeConfigIgnored"
	NodeConfigInvalid         ID = "NodeConfigInvalid"
	SourceInvalid             ID = "SourceInvalid"
	SourceUnreadable          ID = "SourceUnreadable"
	OperatorIntolerant        ID = "OperatorIntolerant"
	KubeAPIAddressMissing     ID = "KubeAPIAddressMissing"
	AgentOutdated             ID = "AgentOutdated"
	PluginInvalid             ID = "PluginInvalid"
	PluginMissing             ID = "PluginMissing"
	FastSyncUnbound           ID = "FastSyncUnbound"
	InputInvalid              ID = "InputInvalid"
)

// Finding is one thing that is not as a chained plugin needs it.
type Finding struct {
	ID       ID       `json:"id"`
	Severity Severity `json:"severity"`
	// Object is what the finding is about, as kubectl would name it.
	Object string `json:"object"`
	// Nodes it holds on, sorted; none where it holds for the cluster.
	Nodes []string `json:"nodes,omitempty"`
	// NodeCount is how many there are, where Nodes names only some.
	NodeCount int `json:"nodeCount,omitempty"`
	// Message is one sentence: what is wrong, and what follows.
	Message string `json:"message"`
	// Differences name each place where a list is not as it should be.
	Differences []chaining.Difference `json:"differences,omitempty"`
	Fix         Fix                   `json:"fix"`
}

// Fix is what to set and the command that does it. Either may be empty, not both.
type Fix struct {
	Value   string `json:"value,omitempty"`
	Command string `json:"command,omitempty"`
}

// String is the fix in a sentence.
func (f Fix) String() string {
	switch {
	case f.Value == "":
		return f.Command
	case f.Command == "":
		return "set " + f.Value
	default:
		return "set " + f.Value + ": " + f.Command
	}
}

const nodesShown = 5

// String is the finding in two lines, and a line for each difference.
func (f Finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s: %s", f.Severity, f.ID, f.Object, f.Message)
	if n := len(f.Nodes); n > nodesShown {
		fmt.Fprintf(&b, " (nodes %s and %d more)", strings.Join(f.Nodes[:nodesShown], ", "), n-nodesShown)
	} else if n > 0 {
		fmt.Fprintf(&b, " (nodes %s)", strings.Join(f.Nodes, ", "))
	}
	for _, d := range f.Differences {
		fmt.Fprintf(&b, "\n  %s", d)
	}
	fmt.Fprintf(&b, "\n  fix: %s", f.Fix)
	return b.String()
}

// Counts reports whether the finding asks for action.
func (f Finding) Counts() bool { return f.Severity != Info }

// shorten quotes text of any length and content for a message.
func shorten(text string) string {
	const most = 60
	if len(text) > most {
		return fmt.Sprintf("%q…", text[:most])
	}
	return fmt.Sprintf("%q", text)
}
