package main

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"text/template"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-cni/holdfast/kind/engine"
)

func TestEveryNetworkHasItsFiles(t *testing.T) {
	for name, n := range networks {
		for _, file := range []string{n.values, n.file} {
			if file == "" {
				continue
			}
			if _, err := networkFiles.ReadFile("network/" + file); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestConfigurationsAreJSONForOneAndForBothFamilies(t *testing.T) {
	v4, v6 := netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:10:244:1::/64")
	for name, n := range networks {
		if n.file == "" {
			continue
		}
		for _, subnets := range [][]netip.Prefix{{v4}, {v4, v6}} {
			content, err := networkFiles.ReadFile("network/" + n.file)
			if err != nil {
				t.Fatal(err)
			}
			var rendered bytes.Buffer
			if err := template.Must(template.New("").Parse(ipam+string(content))).Execute(&rendered, subnets); err != nil {
				t.Fatal(err)
			}
			var config any
			if err := json.Unmarshal(rendered.Bytes(), &config); err != nil {
				t.Errorf("%s: %v in %s", name, err, rendered.String())
			}
			for _, subnet := range subnets {
				if !strings.Contains(rendered.String(), `[{"subnet": "`+subnet.String()+`"}]`) {
					t.Errorf("%s lacks %s: %s", name, subnet, rendered.String())
				}
			}
		}
	}
}

func TestRoutesLeadToOtherNodesByTheSameFamily(t *testing.T) {
	a := node{name: "a", subnets: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24")}}
	b := node{name: "b",
		subnets:   []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:1::/64")},
		addresses: []netip.Addr{netip.MustParseAddr("172.18.0.3"), netip.MustParseAddr("fc00::3")}}
	var got []string
	for line := range strings.Lines(routes(a, []node{a, b})) {
		if command, ok := strings.CutPrefix(line, "ExecStart=/usr/sbin/ip "); ok {
			got = append(got, strings.TrimSpace(command))
		}
	}
	want := []string{"route replace 10.244.1.0/24 via 172.18.0.3", "route replace fd00:1::/64 via fc00::3"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
}

func TestRegisteredNodesCarryLabelAndTaintInBothRoles(t *testing.T) {
	c := cluster{Name: "x", Net: "cilium", Nodes: 2, Registered: true, engine: &engine.Engine{}}
	config := c.config()
	if strings.Count(config, `"holdfast.dev/node":"false"`) != 2 {
		t.Errorf("not every node has the label: %s", config)
	}
	for _, kind := range []string{"InitConfiguration", "JoinConfiguration"} {
		if !strings.Contains(config, kind) {
			t.Errorf("%s is not patched: %s", kind, config)
		}
	}
	if !strings.Contains(config, `"kubeProxyMode":"none"`) {
		t.Errorf("kube-proxy beside its replacement: %s", config)
	}
}

func TestImageNamesAreQualifiedAsContainerdKeepsThem(t *testing.T) {
	for name, want := range map[string]string{
		"holdfast":                 "docker.io/library/holdfast:latest",
		"holdfast:dev":             "docker.io/library/holdfast:dev",
		"holdfast/agent:1":         "docker.io/holdfast/agent:1",
		"localhost/holdfast:dev":   "localhost/holdfast:dev",
		"localhost:5000/holdfast":  "localhost:5000/holdfast:latest",
		"ghcr.io/holdfast-cni/a:1": "ghcr.io/holdfast-cni/a:1",
	} {
		if got := qualified(name); got != want {
			t.Errorf("qualified(%q) = %q, want %q", name, got, want)
		}
	}
}
