package configmap

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Kinds of configuration source, as cilium-dbg build-config names them (pkg/option/resolver/resolver.go).
const (
	SourceConfigMap  = "config-map"
	SourceNodeConfig = "cilium-node-config"
	SourceNode       = "node"
	sourceFlags      = "flag" // the agent's own arguments and environment, above all others
)

// Source is one place Cilium takes settings from. Name is empty for all CiliumNodeConfigs that select the node.
type Source struct{ Kind, Namespace, Name string }

// String names the object as kubectl does.
func (s Source) String() string {
	switch s.Kind {
	case SourceConfigMap:
		return fmt.Sprintf("ConfigMap %s/%s", s.Namespace, s.Name)
	case SourceNodeConfig:
		return fmt.Sprintf("CiliumNodeConfig %s/%s", s.Namespace, s.Name)
	case SourceNode:
		return "Node " + s.Name
	default:
		return fmt.Sprintf("DaemonSet %s/%s", s.Namespace, s.Name)
	}
}

// Sources say where an agent takes its settings from, the later over the earlier, and which keys the later ones may set.
type Sources struct {
	Order []Source
	// Allow, if not empty, lists the only keys that a source after the first may set; otherwise Deny lists those it may not.
	Allow, Deny []string
	// Flags are keys given to the agent itself, which win over every source.
	Flags map[string]string
	// Agent names the DaemonSet the above was read from.
	Agent Source
}

// DefaultSources are those of Cilium's chart with daemon.configSources unset.
func DefaultSources(namespace string) Sources {
	return Sources{
		Order: []Source{
			{Kind: SourceConfigMap, Namespace: namespace, Name: DefaultConfigName},
			{Kind: SourceNodeConfig, Namespace: namespace},
		},
		Agent: Source{Kind: sourceFlags, Namespace: namespace, Name: ciliumDaemonSet},
	}
}

// ParseSources reads the sources from the agent's DaemonSet: the arguments of its build-config init container, or, where
// the chart renders none because daemon.configSources is a single ConfigMap, the volume that mounts it. A nil DaemonSet
// gives the defaults, and so does an error. It names a source that no agent understands; such an agent does not start.
func ParseSources(ds *appsv1.DaemonSet, namespace string) (Sources, error) {
	sources := DefaultSources(namespace)
	if ds == nil {
		return sources, nil
	}
	sources.Agent = Source{Kind: sourceFlags, Namespace: ds.Namespace, Name: ds.Name}
	sources.Flags = agentFlags(ds.Spec.Template.Spec.Containers)
	args, found := buildConfigArgs(ds.Spec.Template.Spec.InitContainers)
	if !found {
		for _, volume := range ds.Spec.Template.Spec.Volumes {
			if volume.Name == "cilium-config-path" && volume.ConfigMap != nil {
				sources.Order = []Source{{Kind: SourceConfigMap, Namespace: namespace, Name: volume.ConfigMap.Name}}
			}
		}
		return sources, nil
	}
	order, given := flagValues(args, "source")
	if given {
		sources.Order = nil
		for _, spec := range order {
			source, err := parseSource(spec, namespace)
			if err != nil {
				return DefaultSources(namespace), err
			}
			sources.Order = append(sources.Order, source)
		}
	}
	sources.Allow, _ = flagValues(args, "allow-config-keys")
	sources.Deny, _ = flagValues(args, "deny-config-keys")
	return sources, nil
}

// parseSource reads KIND[:[NAMESPACE/]NAME] the way cilium-dbg/cmd/build-config.go does: a single word after the colon is
// a ConfigMap's or Node's name, but a CiliumNodeConfig's namespace.
func parseSource(spec, namespace string) (Source, error) {
	kind, rest, _ := strings.Cut(spec, ":")
	source := Source{Kind: kind, Namespace: namespace}
	first, second, both := strings.Cut(rest, "/")
	switch kind {
	case SourceConfigMap:
		source.Name = DefaultConfigName
		if rest != "" && !both {
			source.Name = first
		}
	case SourceNodeConfig:
		if rest != "" && !both {
			source.Namespace = first
		}
	case SourceNode:
		source.Namespace = ""
		source.Name = first // empty: the agent's own node
	default:
		return Source{}, fmt.Errorf("daemon.configSources: %q: no such kind of source; use %s, %s or %s",
			spec, SourceConfigMap, SourceNodeConfig, SourceNode)
	}
	if both {
		source.Namespace, source.Name = first, second
	}
	return source, nil
}

func buildConfigArgs(containers []corev1.Container) (args []string, found bool) {
	for _, c := range containers {
		all := append(append([]string{}, c.Command...), c.Args...)
		for i, word := range all {
			if word == "build-config" {
				return all[i+1:], true
			}
		}
	}
	return nil, false
}

// flagValues collects a string slice flag as pflag does: comma-separated, repeatable, empty items dropped.
func flagValues(args []string, name string) (values []string, given bool) {
	for i, arg := range args {
		value, found := strings.CutPrefix(arg, "--"+name+"=")
		if arg == "--"+name && i+1 < len(args) {
			value, found = args[i+1], true
		}
		if !found {
			continue
		}
		given = true
		for item := range strings.SplitSeq(value, ",") {
			if item != "" {
				values = append(values, item)
			}
		}
	}
	return values, given
}

// agentFlags reads the relevant keys that are given to the agent's container: extraArgs over extraEnv, as viper ranks them.
func agentFlags(containers []corev1.Container) map[string]string {
	flags := map[string]string{}
	for _, c := range containers {
		if c.Name != "cilium-agent" {
			continue
		}
		for key := range relevant {
			name := "CILIUM_" + strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
			for _, env := range c.Env {
				if env.Name == name && env.Value != "" {
					flags[key] = env.Value
				}
			}
		}
		for i, arg := range c.Args {
			name, value, assigned := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
			if !strings.HasPrefix(arg, "--") || !relevant[name] {
				continue
			}
			switch {
			case assigned:
			case isBoolKey(name):
				value = "true"
			case i+1 < len(c.Args):
				value = c.Args[i+1]
			}
			flags[name] = value
		}
	}
	return flags
}
