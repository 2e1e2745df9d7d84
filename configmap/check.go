package configmap

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Expect is what the installation should know of us.
type Expect struct {
	// ConfigMap is the name of the list's ConfigMap, in Cilium's namespace.
	ConfigMap string
	// Taint is the one a node carries while its chain is not confirmed.
	Taint corev1.Taint
	// APIAddress reports whether our own pods were given an address of the API server that needs no Service.
	APIAddress bool
	// Strays are namespaces other than Cilium's in which a ConfigMap of that name lies.
	Strays []string
}

// Check reports what is wrong with the installation, worst first.
func Check(c *Cilium, expect Expect) []Finding {
	sources, err := ParseSources(c.DaemonSet, c.Namespace)
	k := checker{cilium: c, expect: expect, sources: sources, fix: newFixer(c)}
	if err != nil {
		k.add(SourceInvalid, Error, sources.Agent.String(), err.Error()+"; its agents do not start",
			Fix{Value: "daemon.configSources", Command: "correct it in Cilium's Helm values"})
	}
	if k.installation() {
		groups := c.Groups(sources)
		for i := range groups {
			k.group(&groups[i], &groups[0], i == 0)
		}
	}
	k.nodeConfigs()
	k.operator()
	k.agents()
	Sort(k.found)
	return k.found
}

// Sort orders findings by severity, then by kind, object and message, so that equal facts read equal.
func Sort(findings []Finding) {
	rank := map[Severity]int{Error: 0, Warning: 1, Info: 2}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		if d := rank[a.Severity] - rank[b.Severity]; d != 0 {
			return d
		}
		return strings.Compare(string(a.ID)+a.Object+a.Message, string(b.ID)+b.Object+b.Message)
	})
}

type checker struct {
	cilium  *Cilium
	expect  Expect
	sources Sources
	fix     fixer
	found   []Finding
}

func (k *checker) add(id ID, severity Severity, object, message string, fix Fix) {
	k.found = append(k.found, Finding{ID: id, Severity: severity, Object: object, Message: message, Fix: fix})
}

// group checks one set of settings. What the cluster's own settings have wrong too is not said again for a node.
func (k *checker) group(g, cluster *Group, first bool) {
	if g.Empty {
		return
	}
	k.settings(g)
	if !first {
		k.sameList(g, cluster)
	}
}

// settings runs every check that one node's settings decide.
func (k *checker) settings(g *Group) {
	s := g.Settings
	for _, key := range boolKeys {
		k.boolean(g, key)
	}
	for _, key := range []string{KeyUninstall, KeyCustomConf} {
		if v := s.Get(key); v.Given && v.Text != "true" && v.Text != "false" {
			k.spelling(g, key, v)
		}
	}
	k.socketLB(g)
	k.writing(g)
	k.reading(g)
	if v := s.Get(KeyKubeProxyReplacement); v.On() && !k.expect.APIAddress {
		k.addFor(g, KubeAPIAddressMissing, Error, v, fmt.Sprintf("%s is %s, so the API server's Service address works only once "+
			"Cilium does, and our pods, which Cilium waits for, were given no other", KeyKubeProxyReplacement, shorten(v.Text)),
			Fix{Value: "kubernetesApi.host and kubernetesApi.port (Holdfast's chart)",
				Command: "helm upgrade --reuse-values --set kubernetesApi.host=ADDRESS,kubernetesApi.port=PORT with an address of the API server that is no Service's"})
	}
}

// boolean checks a value the agent reads with strconv.ParseBool.
func (k *checker) boolean(g *Group, key string) {
	v := g.Settings.Get(key)
	want := "false"
	if v.On() {
		want = "true"
	}
	switch {
	case !v.Given || v.Text == "true" || v.Text == "false":
	case !v.Valid():
		k.addFor(g, SettingInvalid, Error, v, fmt.Sprintf("%s is %s, which is not a boolean: an agent of Cilium 1.14 or later "+
			"does not start with it", key, shorten(v.Text)), k.fix.setting(key, want, v))
	default:
		k.spelling(g, key, v)
	}
}

// spelling: scripts and templates of Cilium compare with the word true alone (plugins/cilium-cni/cni-uninstall.sh).
func (k *checker) spelling(g *Group, key string, v Value) {
	want := "false"
	if v.On() {
		want = "true"
	}
	k.addFor(g, SettingSpelling, Warning, v, fmt.Sprintf("%s is %s: not every reader of it takes that for a boolean",
		key, shorten(v.Text)), k.fix.setting(key, want, v))
}

func (k *checker) socketLB(g *Group) {
	s := g.Settings
	if !s.SocketLBInPods() {
		return
	}
	kpr, sock, hostOnly := s.Get(KeyKubeProxyReplacement), s.Get(KeySocketLB), s.Get(KeySocketLBHostOnly)
	cause := fmt.Sprintf("%s is %s", KeySocketLB, shorten(sock.Text))
	from := sock
	if kpr.On() {
		cause = fmt.Sprintf("%s is %s, which forces socket LB on", KeyKubeProxyReplacement, shorten(kpr.Text))
		from = kpr
		if sock.Given && !sock.On() {
			cause += fmt.Sprintf(" although %s is %s", KeySocketLB, shorten(sock.Text))
		}
	}
	if hostOnly.Given {
		cause += fmt.Sprintf("; %s is %s", KeySocketLBHostOnly, shorten(hostOnly.Text))
		from = hostOnly
	} else {
		cause += fmt.Sprintf("; %s is not set", KeySocketLBHostOnly)
	}
	k.addFor(g, SocketLBInPods, Error, from, "service addresses are rewritten inside pods' sockets ("+cause+
		"), so the resolver's address never reaches a pod's rules and the sidecar's DNS fails",
		k.fix.setting(KeySocketLBHostOnly, "true", from))
}

// addFor adds a finding about a value in force on the group's nodes, unless it holds for the whole cluster already.
func (k *checker) addFor(g *Group, id ID, severity Severity, v Value, message string, fix Fix) {
	object := v.Source.String()
	if v.Source == (Source{}) {
		object = Source{Kind: SourceConfigMap, Namespace: k.fix.configNamespace, Name: k.fix.configName}.String()
	}
	if g.Selected != "" {
		object = g.Selected
	}
	same := func(f Finding) bool { return f.ID == id && f.Message == message && f.Fix == fix }
	i := slices.IndexFunc(k.found, same)
	if i < 0 {
		k.found = append(k.found, Finding{ID: id, Severity: severity, Object: object, Nodes: g.Nodes, Message: message, Fix: fix})
	} else if f := &k.found[i]; f.Nodes != nil {
		f.Nodes = append(slices.Clone(f.Nodes), g.Nodes...)
		slices.Sort(f.Nodes)
	}
}
