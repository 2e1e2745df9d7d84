package configmap

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-cni/holdfast/chaining"
)

// FuzzPlan: whatever cilium-config, plugin.json and the ConfigMap hold, nothing panics, each finding is whole, and what is
// written is a list with Cilium in it.
func FuzzPlan(f *testing.F) {
	f.Add("true", "False", "portmap", "/a/b", plugin, foreignList, true)
	f.Add("strict", "", "aws-cni", "", "{", "", false)
	f.Add("", "x", "generic-veth", "relative", `{"type":"cilium-cni"}`, `{"cniVersion":"1.0.0","name":"a","plugins":[{"type":"holdfast-cni"}]}`, true)
	f.Fuzz(func(t *testing.T, kpr, exclusive, mode, readConf, pluginText, list string, adopt bool) {
		c := cilium(KeyKubeProxyReplacement, kpr, KeyExclusive, exclusive, KeyChainingMode, mode, KeyReadConf, readConf)
		r := Request{Cilium: c, Name: DefaultConfigMap, Release: "a/b", PluginObject: "plugin.json", Existing: foreign(list), Adopt: adopt}
		if e, err := chaining.ParseEntry([]byte(pluginText)); err != nil {
			r.PluginErr = err
		} else {
			r.Plugin = &e
		}
		plan := Make(r)
		for _, finding := range append(Check(c, expect), plan.Findings...) {
			if finding.ID == "" || finding.Message == "" || finding.Object == "" || finding.Fix.String() == "" {
				t.Errorf("half a finding: %+v", finding)
			}
		}
		if plan.Want == nil {
			return
		}
		parsed, err := chaining.Parse([]byte(plan.Want.Data[plan.Key]))
		if err != nil || len(parsed.Find(ciliumType)) == 0 {
			t.Errorf("would write %q: %v", plan.Want.Data, err)
		}
		if r.Plugin != nil {
			if verdict := chaining.Check(parsed, *r.Plugin); verdict.Reason != chaining.Chained {
				t.Errorf("would write a list that is not chained: %v", verdict)
			}
		}
	})
}

// FuzzDocuments: no input panics, and what is read is bounded.
func FuzzDocuments(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: ConfigMap\ndata:\n  debug: true\n---\nkind: List\nitems: [{kind: Node}]\n"))
	f.Add([]byte(`{"kind":"CiliumNodeConfig","spec":{"defaults":{"a":"b"},"nodeSelector":{}}}`))
	f.Add([]byte("kind: DaemonSet\nmetadata: {name: cilium}\nspec: {template: {spec: {containers: [{name: cilium-agent, args: [--debug]}]}}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		documents, err := ReadDocuments(data)
		if err != nil {
			return
		}
		c := documents.Cilium("kube-system")
		Check(c, expect)
		Make(Request{Cilium: c, Name: DefaultConfigMap})
	})
}

// FuzzSources: the arguments of build-config are read without a panic, and every source is of a known kind.
func FuzzSources(f *testing.F) {
	f.Add("--source=config-map:a/b,cilium-node-config,node:x --allow-config-keys=a,b")
	f.Add("--source --deny-config-keys")
	f.Fuzz(func(t *testing.T, args string) {
		ds := &appsv1.DaemonSet{}
		ds.Spec.Template.Spec.InitContainers = []corev1.Container{{Command: []string{"cilium-dbg", "build-config"}, Args: strings.Split(args, " ")}}
		sources, err := ParseSources(ds, "kube-system")
		if err != nil {
			return
		}
		for _, s := range sources.Order {
			if s.Kind != SourceConfigMap && s.Kind != SourceNodeConfig && s.Kind != SourceNode {
				t.Errorf("unknown kind %q", s.Kind)
			}
		}
	})
}
