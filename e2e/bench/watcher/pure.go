package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/configmap"
	"github.com/holdfast-cni/holdfast/e2e/bench/figure"
)

// pureGoal is the issue's. Its unit is what encoding/json needs to decode the same list into maps, about slowestDecode on this
// project's machine while that is busy.
const (
	pureGoal      = 100 * time.Microsecond
	slowestDecode = 40 * time.Microsecond
	pureLimit     = float64(pureGoal) / float64(slowestDecode)
)

// pure measures what each event costs before anything is sent.
func (b *bench) pure(context.Context) error {
	text := []byte(largeList())
	list, err := chaining.Parse(text)
	if err != nil {
		return err
	}
	entry, err := chaining.ParseEntry([]byte(`{"type":"holdfast-cni","capabilities":{"io.kubernetes.cri.pod-annotations":true},"resolvers":["10.96.0.10","fd00::a"],` +
		`"governedNamespaces":["agents","sandboxes","builds"],"allowPrivate":["10.0.0.0/8"],"ingress":{"ports":[8080,8443]}}`))
	if err != nil {
		return err
	}
	rendered, err := configmap.Render(configmap.Settings{}, &list, &entry)
	if err != nil {
		return err
	}
	if diffs := configmap.Compare(configmap.Settings{}, rendered, entry); len(diffs) > 0 {
		return fmt.Errorf("the rendered list differs: %v", diffs)
	}
	did := []struct {
		what string
		do   func()
		took figure.Samples
	}{
		{what: "decoding", do: func() { var v any; _ = json.Unmarshal(text, &v) }},
		{what: "Render", do: func() { _, _ = configmap.Render(configmap.Settings{}, &list, &entry) }},
		{what: "Compare", do: func() { configmap.Compare(configmap.Settings{}, rendered, entry) }},
	}
	for range 3 { // in turn, and the best counts: whatever else the machine does only adds
		for i := range did {
			did[i].took = append(did[i].took, per(did[i].do))
		}
	}
	decode := did[0].took.At(0)
	b.table.Note(fmt.Sprintf("decoding a list of %d bytes (encoding/json)", len(text)), decode.String())
	for _, f := range did[1:] {
		ratio := float64(f.took.At(0)) / float64(decode)
		b.table.Judge(f.what+" of that list", fmt.Sprintf("%s = %.2f decodings", f.took.At(0), ratio),
			fmt.Sprintf("< %.1f decodings (%s where one takes %s)", pureLimit, pureGoal, slowestDecode), ratio < pureLimit)
	}
	return nil
}

// per is how long one takes.
func per(do func()) time.Duration {
	return time.Duration(testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			do()
		}
	}).NsPerOp())
}

// largeList has the size of the largest list seen in the field, about 1,500 bytes: a network plugin, a service mesh's, and two more.
func largeList() string {
	var plugins []string
	for _, kind := range []string{"cilium-cni", "mesh-cni", "bandwidth", "portmap"} {
		plugins = append(plugins, fmt.Sprintf(`    {
      "type": %q,
      "log-file": "/var/log/%s.log",
      "kubernetes": {"kubeconfig": "/etc/cni/net.d/%s-kubeconfig", "namespaces": ["kube-system", "mesh"]},
      "mtu": 1460, "ports": [4143, 4140, 2102],
      "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.52.1.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]},
      "capabilities": {"portMappings": true}
    }`, kind, kind, kind))
	}
	return "{\n  \"cniVersion\": \"1.0.0\",\n  \"name\": \"cilium\",\n  \"plugins\": [\n" + strings.Join(plugins, ",\n") + "\n  ]\n}\n"
}
