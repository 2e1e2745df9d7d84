package configmap

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	ciliumv2 "github.com/cilium/cilium/pkg/k8s/apis/cilium.io/v2"
	"github.com/cilium/cilium/pkg/k8s/client/testutils"
	"github.com/cilium/cilium/pkg/kpr"
	"github.com/cilium/cilium/pkg/option"
	"github.com/cilium/cilium/pkg/option/resolver"
	cnitypes "github.com/cilium/cilium/plugins/cilium-cni/types"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cast"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The keys are Cilium's own: a version that renames one fails here.
func TestKeysAreCiliums(t *testing.T) {
	for ours, ciliums := range map[string]string{
		KeyKubeProxyReplacement: option.KubeProxyReplacement, KeySocketLB: option.EnableSocketLB,
		KeySocketLBHostOnly: option.BPFSocketLBHostnsOnly, KeyReadConf: option.ReadCNIConfiguration,
		KeyWriteConf: option.WriteCNIConfigurationWhenReady, KeyExclusive: option.CNIExclusive,
		KeyChainingMode: option.CNIChainingMode, KeyChainingTarget: option.CNIChainingTarget,
		KeyLogFile: option.CNILogFile, KeyDebug: option.DebugArg,
	} {
		if ours != ciliums {
			t.Errorf("have %q, Cilium has %q", ours, ciliums)
		}
	}
}

// C4: booleans are read as the agent reads them, but for the words of old versions, which are read as they were meant.
func TestBooleansAreReadAsTheAgentReadsThem(t *testing.T) {
	for _, text := range []string{"", "true", "false", "True", "TRUE", "t", "T", "1", "0", "f", "yes", "on", "enabled", "disabled", "tRue", " ", "01"} {
		v := Value{Text: text, Given: true}
		on, err := cast.ToBoolE(text)
		if v.On() != on || v.Valid() != (err == nil) {
			t.Errorf("%q: have %v, valid %v; the agent has %v, %v", text, v.On(), v.Valid(), on, err)
		}
	}
}

// C4: kube-proxy replacement forces socket LB on.
func TestSocketLBFollowsCiliumsKPRConfig(t *testing.T) {
	for _, kubeProxyReplacement := range []bool{true, false} {
		for _, sock := range []bool{true, false} {
			cfg, err := kpr.NewKPRConfig(kpr.KPRFlags{KubeProxyReplacement: kubeProxyReplacement, EnableSocketLB: sock})
			if err != nil {
				t.Fatal(err)
			}
			s := merge([]layer{{values: map[string]string{
				KeyKubeProxyReplacement: strconv.FormatBool(kubeProxyReplacement), KeySocketLB: strconv.FormatBool(sock)}}}, Sources{})
			if s.SocketLBInPods() != cfg.EnableSocketLB {
				t.Errorf("KPR %v, bpf-lb-sock %v: have %v, Cilium has %v", kubeProxyReplacement, sock, s.SocketLBInPods(), cfg.EnableSocketLB)
			}
		}
	}
}

// C4: for random sources, override lists, node configurations and nodes, every node gets what Cilium's own resolver gives it.
func TestGroupsResolveAsCiliumDoes(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		c, sources := randomCilium(r)
		perNode := map[string]Settings{}
		groups := c.Groups(sources)
		for _, g := range groups[1:] {
			for _, name := range g.Nodes {
				perNode[name] = g.Settings
			}
		}
		client, _ := testutils.NewFakeClientset(slog.New(slog.DiscardHandler))
		ctx := context.Background()
		for _, cm := range c.ConfigMaps {
			must(t)(client.CoreV1().ConfigMaps(cm.Namespace).Create(ctx, cm, metav1.CreateOptions{}))
		}
		for _, config := range c.NodeConfigs {
			must(t)(client.CiliumV2().CiliumNodeConfigs(config.Namespace).Create(ctx, config, metav1.CreateOptions{}))
		}
		for _, n := range c.Nodes {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels, Annotations: n.Annotations}}
			must(t)(client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}))
		}
		for _, n := range c.Nodes {
			var order []resolver.ConfigSource
			for _, s := range sources.Order {
				if s.Kind == SourceNode && s.Name == "" {
					s.Name = n.Name // build-config fills in the agent's own node
				}
				order = append(order, resolver.ConfigSource{Kind: s.Kind, Namespace: s.Namespace, Name: s.Name})
			}
			want, err := resolver.ResolveConfigurations(ctx, slog.New(slog.DiscardHandler), client, n.Name, order, sources.Allow, sources.Deny)
			if err != nil {
				t.Fatal(err)
			}
			have, found := perNode[n.Name]
			if !found {
				have = groups[0].Settings
			}
			got := map[string]string{}
			for key, v := range have.values {
				got[key] = v.Text
			}
			if diff := cmp.Diff(relevantOf(want), got); diff != "" {
				t.Fatalf("seed %d, node %s, sources %+v: %s", seed, n.Name, sources, diff)
			}
		}
	}
}

func must(t *testing.T) func(any, error) {
	return func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

func randomCilium(r *rand.Rand) (*Cilium, Sources) {
	keys := []string{KeySocketLB, KeySocketLBHostOnly, KeyKubeProxyReplacement, "unrelated"}
	values := func() map[string]string {
		m := map[string]string{}
		for range r.IntN(3) {
			m[keys[r.IntN(len(keys))]] = fmt.Sprint(r.IntN(4))
		}
		return m
	}
	c := &Cilium{Namespace: "kube-system", Nodes: []Node{}}
	for _, name := range []string{"cilium-config", "more"} {
		if r.IntN(5) > 0 {
			c.ConfigMaps = append(c.ConfigMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Data: values()})
		}
	}
	for i := range r.IntN(4) {
		config := &ciliumv2.CiliumNodeConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: fmt.Sprint("c", 9-i)}}
		config.Spec.Defaults = values()
		switch r.IntN(4) {
		case 0:
		case 1:
			config.Spec.NodeSelector = &metav1.LabelSelector{}
		default:
			config.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": fmt.Sprint(r.IntN(2))}}
		}
		c.NodeConfigs = append(c.NodeConfigs, config)
	}
	for i := range 3 {
		n := Node{Name: fmt.Sprint("n", i), Labels: map[string]string{"pool": fmt.Sprint(r.IntN(2))}, Annotations: map[string]string{}}
		for key, v := range values() {
			n.Annotations["config.cilium.io/"+key] = v
		}
		if r.IntN(3) == 0 {
			n.Labels["config.cilium.io/"+KeySocketLB] = "9"
		}
		c.Nodes = append(c.Nodes, n)
	}
	all := []string{"config-map:cilium-config", "config-map:more", "cilium-node-config:kube-system", "cilium-node-config:kube-system/c9",
		"node", "node:n1", "config-map", "config-map:kube-system/more", "cilium-node-config"}
	sources := DefaultSources("kube-system")
	if r.IntN(4) > 0 {
		sources.Order = nil
		for _, i := range r.Perm(len(all))[:1+r.IntN(4)] {
			s, err := parseSource(all[i], "kube-system")
			if err != nil {
				panic(err)
			}
			sources.Order = append(sources.Order, s)
		}
	}
	switch r.IntN(3) {
	case 0:
		sources.Allow = []string{keys[r.IntN(len(keys))]}
	case 1:
		sources.Deny = []string{keys[r.IntN(len(keys))]}
	}
	return c, sources
}

// C3: what the agent itself reads from a list it reads from ours.
func TestCiliumReadsTheRenderedList(t *testing.T) {
	existing := parse(t, eniList)
	list, err := Render(Settings{}, &existing, entry(t, plugin))
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir() + "/list"
	writeFile(t, path, list.Bytes())
	have, err := cnitypes.ReadNetConf(path)
	if err != nil {
		t.Fatal(err)
	}
	if have.MTU != 9001 || have.ENI.FirstInterfaceIndex == nil || *have.ENI.FirstInterfaceIndex != 1 || !strings.HasSuffix(have.LogFile, "/x.log") {
		t.Errorf("the agent reads %+v", have)
	}
}
