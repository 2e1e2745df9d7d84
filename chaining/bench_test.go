package chaining_test

import (
	"strings"
	"testing"

	"github.com/holdfast-cni/holdfast/chaining"
)

// largeList is a list of about 3 KB, twice what the largest vendors' lists have, written for people.
func largeList() string {
	var list strings.Builder
	list.WriteString("{\n  \"name\": \"k8s-pod-network\",\n  \"cniVersion\": \"1.0.0\",\n  \"plugins\": [\n")
	for i, kind := range []string{"calico", "mesh-cni", "bandwidth", "portmap"} {
		if i > 0 {
			list.WriteString(",\n")
		}
		list.WriteString("    {\n      \"type\": \"" + kind + "\",\n")
		for _, key := range []string{"datastore_type", "log_level", "log_file_path", "nodename", "endpoint_status_dir", "policy", "kubeconfig"} {
			list.WriteString("      \"" + key + "\": \"/var/run/vendor/" + key + "\",\n")
		}
		list.WriteString(`      "mtu": 1460, "ports": [4143, 4140, 2102, 4191, 4190], "ipv6": false,
      "ipam": {
        "type": "host-local",
        "ranges": [[{"subnet": "10.52.1.0/24"}], [{"subnet": "fd00:10:244::/64"}]],
        "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]
      },
      "capabilities": {"portMappings": true}
    }`)
	}
	list.WriteString("\n  ]\n}\n")
	return list.String()
}

// BenchmarkParse is what a file event in the CNI conf directory costs.
func BenchmarkParse(b *testing.B) {
	data := []byte(largeList())
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := chaining.Parse(data); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkParseAppendCheck is a whole round of the list strategy: two parses and a comparison.
func BenchmarkParseAppendCheck(b *testing.B) {
	data, entry := []byte(largeList()), mustEntry(b, ours)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		list, err := chaining.Parse(data)
		if err != nil {
			b.Fatal(err)
		}
		appended, err := list.Append(entry)
		if err != nil {
			b.Fatal(err)
		}
		if verdict := chaining.Check(appended, entry); verdict.Reason != chaining.Chained {
			b.Fatal(verdict)
		}
	}
}
