package plugin

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
)

// Type is the plugin's name in a conflist and its file name in the CNI bin directory.
const Type = "holdfast-cni"

// PodAnnotations is the capability through which containerd and CRI-O hand a plugin the pod's annotations
// (containerd: internal/cri/annotations; CRI-O: the same key). Labels have no such capability.
const PodAnnotations = "io.kubernetes.cri.pod-annotations"

// Config is plugin.json: the entry of a conflist that holdfast-cni reads. Its zero value is not valid.
type Config struct {
	// Type is always "holdfast-cni".
	Type string `json:"type"`
	// Capabilities must ask for PodAnnotations, or pods outside the governed namespaces could not ask for the lock.
	Capabilities map[string]bool `json:"capabilities"`
	// Resolvers are the DNS servers a sidecar may ask: the cluster DNS service addresses, node-local DNS included.
	Resolvers []string `json:"resolvers"`
	// GovernedNamespaces are the namespaces whose pods all get the lock.
	GovernedNamespaces []string `json:"governedNamespaces,omitempty"`
	// AllowPrivate are the private ranges a sidecar may reach, in CIDR form.
	AllowPrivate []string `json:"allowPrivate,omitempty"`
	// Refuse are ranges refused beside the built-in ones, in CIDR form.
	Refuse []string `json:"refuse,omitempty"`
	// Sidecar says which sidecars are genuine.
	Sidecar Sidecar `json:"sidecar,omitzero"`
	// Ingress says what may reach a governed pod.
	Ingress Ingress `json:"ingress,omitzero"`
	// SeccompProfiles are the Localhost profiles allowed beside RuntimeDefault, relative to the kubelet's seccomp folder.
	SeccompProfiles []string `json:"seccompProfiles,omitempty"`
	// RuntimeClasses are those that governed pods may name, beside the runtime's default, which is named by none. The lock must have
	// been proved in each: a runtime with a kernel of its own (gVisor, Kata) may pass packets that no rule sees.
	RuntimeClasses []string `json:"runtimeClasses,omitempty"`
}

// Sidecar lists the images, by digest, that may run as the sidecar.
type Sidecar struct {
	// Images are digests of the form sha256:<64 hexadecimal digits>.
	Images []string `json:"images,omitempty"`
}

// Ingress lists the TCP ports, 1 to 65535, on which a governed pod may be reached.
type Ingress struct {
	Ports []int `json:"ports,omitempty"`
}

// ParseConfig reads plugin.json strictly: an unknown or duplicate key is an error, and so is a value of the wrong type
// or one that Validate refuses. The namespaces in reserved are never governed. Each error names the key and the fix.
func ParseConfig(data []byte, reserved ...string) (Config, error) {
	var c Config
	if err := json.Unmarshal(data, &c, json.RejectUnknownMembers(true)); err != nil {
		return Config{}, fmt.Errorf("plugin.json: %w", explain(err))
	}
	if err := c.Validate(reserved...); err != nil {
		return Config{}, err
	}
	return c, nil
}

// explain turns a decoder's error into one that a person who edits plugin.json can act on.
func explain(err error) error {
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) {
		return err
	}
	key := keyPath(string(semantic.JSONPointer))
	if errors.Is(err, json.ErrUnknownName) {
		return fmt.Errorf("%s: unknown key; remove it, or correct its spelling", key)
	}
	kind := "null"
	switch semantic.JSONKind {
	case '"':
		kind = "a string"
	case '0':
		kind = "a number that does not fit"
	case 't', 'f':
		kind = "a boolean"
	case '{':
		kind = "an object"
	case '[':
		kind = "an array"
	}
	if key == "" {
		return fmt.Errorf("is %s; write an object", kind)
	}
	return fmt.Errorf("%s: is %s; write %s", key, kind, goKind(semantic))
}

func goKind(err *json.SemanticError) string {
	if err.GoType == nil {
		return "another kind of value"
	}
	switch name := err.GoType.Kind().String(); name {
	case "string":
		return "a string"
	case "int":
		return "a whole number"
	case "bool":
		return "true or false"
	case "slice":
		return "an array"
	default:
		return "an object"
	}
}

// keyPath writes a JSON pointer (RFC 6901) as people write paths: /ingress/ports/0 is ingress.ports[0].
func keyPath(pointer string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch {
		case part != "" && strings.Trim(part, "0123456789") == "":
			b.WriteString("[" + part + "]")
		case b.Len() > 0:
			b.WriteString("." + part)
		default:
			b.WriteString(part)
		}
	}
	return b.String()
}
