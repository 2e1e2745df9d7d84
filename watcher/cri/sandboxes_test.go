package cri

import "testing"

// N18: what a runtime tells of a sandbox has no version, and is taken as it comes.
func TestWhereASandboxRuns(t *testing.T) {
	tests := map[string]struct {
		text string
		want Inside
		bad  bool
	}{
		"containerd":            {`{"pid":42,"sandboxMetadata":{"Version":"v1","Metadata":{"NetNSPath":"/var/run/netns/cni-1"}},"runtimeSpec":{"linux":{"namespaces":[{"type":"ipc"},{"type":"network","path":"/var/run/netns/cni-1"}]}}}`, Inside{NetNS: "/var/run/netns/cni-1", PID: 42}, false},
		"containerd, no spec":   {`{"pid":42,"sandboxMetadata":{"Metadata":{"NetNSPath":"/var/run/netns/cni-1"}},"runtimeSpec":null}`, Inside{NetNS: "/var/run/netns/cni-1", PID: 42}, false},
		"CRI-O":                 {`{"image":"pause","pid":7,"runtimeSpec":{"linux":{"namespaces":[{"type":"network","path":"/var/run/netns/u"}]}}}`, Inside{NetNS: "/var/run/netns/u", PID: 7}, false},
		"nothing":               {``, Inside{}, false},
		"an empty object":       {`{}`, Inside{}, false},
		"a pid that can't be":   {`{"pid":-1}`, Inside{}, false},
		"not JSON":              {`pid: 1`, Inside{}, true},
		"another kind of value": {`{"pid":"one"}`, Inside{}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got, err := inside(test.text); got != test.want || (err != nil) != test.bad {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func FuzzInside(f *testing.F) {
	f.Add(`{"pid":42,"sandboxMetadata":{"Metadata":{"NetNSPath":"/n"}},"runtimeSpec":{"linux":{"namespaces":[{"type":"network","path":"/n"}]}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		if in, err := inside(text); err == nil && in.PID < 0 {
			t.Errorf("pid %d", in.PID)
		}
	})
}
