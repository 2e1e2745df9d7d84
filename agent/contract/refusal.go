package contract

import "fmt"

// Rule is one line of the contract, as a word for metrics.
type Rule string

// The rules.
const (
	Oversize           Rule = "Oversize"           // more than Largest
	RestrictedStandard Rule = "RestrictedStandard" // the Restricted Pod Security Standard, of Standard
	OperatingSystem    Rule = "OperatingSystem"    // no Windows, for which that standard asks less
	RuntimeClass       Rule = "RuntimeClass"
	SharedProcesses    Rule = "SharedProcesses"
	Devices            Rule = "Devices"
	ResourceClaims     Rule = "ResourceClaims"
	Seccomp            Rule = "Seccomp"
	UserMissing        Rule = "UserMissing"
	SidecarsUser       Rule = "SidecarsUser"  // a container other than the sidecar with its UID
	SidecarsGroup      Rule = "SidecarsGroup" // or with its GID
	SidecarMissing     Rule = "SidecarMissing"
	SidecarProbe       Rule = "SidecarProbe"
	SidecarImage       Rule = "SidecarImage"
	SidecarIdentity    Rule = "SidecarIdentity"    // the sidecar without its UID or GID
	SidecarCommand     Rule = "SidecarCommand"     // something else runs as the sidecar
	SidecarEnvironment Rule = "SidecarEnvironment" // what the environment may have the sidecar load
	SidecarMount       Rule = "SidecarMount"       // something may stand in the place of its files
)

// Refusal says in one sentence which field breaks the contract, why that matters, and what to do.
type Refusal struct {
	Rule Rule
	// Field is the path in the pod, such as spec.containers[0].securityContext.runAsUser.
	Field string
	// Says is what is wrong there and Fix what to do, neither with its full stop.
	Says, Fix string
}

func (r Refusal) String() string { return r.Field + ": " + r.Says + "; " + r.Fix }

// refusals gathers them in the order of the rules.
type refusals []Refusal

func (r *refusals) add(rule Rule, field, fix, format string, args ...any) {
	*r = append(*r, Refusal{Rule: rule, Field: field, Says: fmt.Sprintf(format, args...), Fix: fix})
}
