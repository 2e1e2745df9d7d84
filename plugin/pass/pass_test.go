package pass

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const prevResult = `{"cniVersion":"1.0.0","interfaces":[{"name":"eth0","sandbox":"/x"}],"ips":[{"address":"10.0.0.2/24","interface":0}],"dns":{}, "unknown": 1e3}`

func stdin(parts string) []byte {
	return []byte(`{"cniVersion":"1.0.0","name":"cilium","type":"holdfast-cni","resolvers":["10.96.0.10"]` + parts + `}`)
}

func environment(change map[string]string) func(string) string {
	env := map[string]string{
		"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "c1", "CNI_NETNS": "/x", "CNI_IFNAME": "eth0", "CNI_PATH": "/opt/cni/bin",
		"CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=p;K8S_POD_UID=u",
	}
	maps.Copy(env, change)
	return func(name string) string { return env[name] }
}

// I2: an ungoverned pod's result passes as it came, whatever else the configuration says.
func TestUngovernedPodsPass(t *testing.T) {
	tests := map[string]string{
		"plain":                  ``,
		"unknown keys":           `,"from":"a newer release","resolvers2":[1]`,
		"keys of another kind":   `,"resolvers":5,"ingress":[]`,
		"another namespace":      `,"governedNamespaces":["agents"]`,
		"annotation not true":    `,"runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"holdfast.dev/governed":"yes"}}`,
		"annotations of no kind": `,"runtimeConfig":{"io.kubernetes.cri.pod-annotations":{}}`,
	}
	for name, config := range tests {
		t.Run(name, func(t *testing.T) {
			got, passed := Through(environment(nil), stdin(config+`,"prevResult":`+prevResult))
			if diff := cmp.Diff(prevResult+"\n", string(got)); !passed || diff != "" {
				t.Errorf("passed %v: %s", passed, diff)
			}
		})
	}
}

// annotatedTwice are governed by one of two values of a key, whichever a reader takes.
var annotatedTwice = []string{
	`"runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"holdfast.dev/governed":"true"}},"runtimeConfig":null`,
	`"runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"holdfast.dev/governed":"true"}},"runtimeConfig":{}`,
	`"runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"holdfast.dev/governed":"true"}},"RUNTIMECONFIG":{"io.kubernetes.cri.pod-annotations":null}`,
	`"runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"holdfast.dev/governed":"true"}},"runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"holdfast.dev/governed":"false"}}`,
	`"runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"holdfast.dev/governed":"true"},"IO.kubernetes.cri.pod-annotations":{"holdfast.dev/governed":"false"}}`,
	`"runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"holdfast.dev/governed":"true"},"io.kubernetes.cri.pod-annotations":null}`,
	`"runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"holdfast.dev/governed":"true","holdfast.dev/governed":"false"}}`,
	`"runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"a":null,"holdfast\u002edev/governed":"true","holdfast.dev/governed":null}}`,
	`"runtimeConfig":null,"RuntimeConfig":{"io.kubernetes.cri.pod-annotations":{"holdfast.dev/governed":"no","holdfast.dev/governed":"true"}}`,
}

var withNamespaces = stdin(`,"governedNamespaces":["agents"],"prevResult":` + prevResult)

func args(text string) map[string]string { return map[string]string{"CNI_ARGS": text} }

// I1: what isn't plainly an ungoverned pod's is left to the whole plugin.
func TestOthersDoNotPass(t *testing.T) {
	good := stdin(`,"prevResult":` + prevResult)
	tests := map[string]struct {
		stdin []byte
		env   map[string]string
	}{
		"N8 a governed namespace":  {stdin(`,"governedNamespaces":["default"],"prevResult":` + prevResult), nil},
		"N8 undone by another key": {stdin(`,"governedNamespaces":["default"],"GovernedNamespaces":[],"prevResult":` + prevResult), nil},
		"N8 undone by the same":    {stdin(`,"governedNamespaces":["default"],"governedNamespaces":null,"prevResult":` + prevResult), nil},
		"an annotation":            {stdin(`,"runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"holdfast.dev/governed":"true"}},"prevResult":` + prevResult), nil},
		"N8 args twice":            {withNamespaces, args("K8S_POD_NAMESPACE=agents;K8S_POD_NAMESPACE=default;K8S_POD_NAME=p;K8S_POD_UID=u")},
		"N8 args of no namespace":  {withNamespaces, args("K8S_POD_NAME=p;K8S_POD_UID=u")},
		"no prevResult":            {stdin(``), nil},
		"a prevResult that's null": {stdin(`,"prevResult":null`), nil},
		"one that's no object":     {stdin(`,"prevResult":"x"`), nil},
		"one of another version":   {stdin(`,"prevResult":` + strings.Replace(prevResult, "1.0.0", "0.4.0", 1)), nil},
		"truncated":                {good[:len(good)/2], nil},
		"nothing":                  {nil, nil},
		"another kind of list":     {stdin(`,"governedNamespaces":"agents","prevResult":` + prevResult), nil},
		"no name":                  {[]byte(strings.Replace(string(good), "cilium", "", 1)), nil},
		"a version it can't speak": {[]byte(strings.ReplaceAll(string(good), "1.0.0", "0.2.0")), nil},
		"DEL":                      {good, map[string]string{"CNI_COMMAND": "DEL"}},
		"no container":             {good, map[string]string{"CNI_CONTAINERID": ""}},
		"no namespace":             {good, map[string]string{"CNI_NETNS": ""}},
		"no interface":             {good, map[string]string{"CNI_IFNAME": ""}},
		"no path":                  {good, map[string]string{"CNI_PATH": ""}},
	}
	for i, runtime := range annotatedTwice {
		if got, passed := Through(environment(nil), stdin(`,`+runtime+`,"prevResult":`+prevResult)); passed {
			t.Errorf("N8 annotated %d: passed: %s", i, got)
		}
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got, passed := Through(environment(test.env), test.stdin); passed || got != nil {
				t.Errorf("passed: %s", got)
			}
		})
	}
	if _, passed := Through(environment(nil), good); !passed {
		t.Error("the environment that the others change doesn't pass itself")
	}
}

func TestPodIsReadFromTheArguments(t *testing.T) {
	for args, want := range map[string]Pod{
		"": {}, ";;=": {}, "IgnoreUnknown=1;IgnoreUnknown=1;K8S_CLUSTER=a": {},
		"IgnoreUnknown=1;K8S_POD_NAMESPACE=a;K8S_POD_NAME=b=c;K8S_POD_UID=d": {"a", "b=c", "d", false},
		"K8S_POD_NAMESPACE=a;K8S_POD_NAME=b":                                 {"a", "b", "", false}, // of a runtime older than the UID
		"K8S_POD_NAMESPACE=a;K8S_POD_NAME=b;K8S_POD_UID=":                    {"a", "b", "", false},
		"K8S_POD_NAMESPACE":                                 {Unclear: true},
		"K8S_POD_NAMESPACE=;K8S_POD_NAME=b":                 {Name: "b", Unclear: true},
		"K8S_POD_INFRA_CONTAINER_ID=c":                      {Unclear: true},
		" K8S_POD_NAMESPACE=a; K8S_POD_NAME=b":              {"a", "b", "", false},
		"K8S_POD_NAMESPACE=a ;K8S_POD_NAME=b":               {"a ", "b", "", true},
		"K8S_POD_NAMESPACE=A;K8S_POD_NAME=b":                {"A", "b", "", true},
		"K8S_POD_NAMESPACE=a;K8S_POD_NAMESPACE=a":           {"a", "", "", true},
		"K8S_POD_NAMESPACE=a;K8S_POD_NAME=b;K8S_POD_NAME=c": {"a", "c", "", true},
		"K8S_POD_NAMESPACE=a;K8S_CLUSTER=b;K8S_CLUSTER=c":   {"a", "", "", true},
	} {
		if diff := cmp.Diff(want, PodOf(args)); diff != "" {
			t.Errorf("%q: %s", args, diff)
		}
	}
}

// N8: who can't be told is governed where namespaces are, and where none are, or nobody is named, not.
func TestPodsOfWhichCannotBeTold(t *testing.T) {
	for text, governed := range map[string]bool{
		"": false, "IgnoreUnknown=1": false, "K8S_POD_NAMESPACE=default;K8S_POD_NAME=p": false,
		"K8S_POD_NAMESPACE=default;K8S_POD_NAMESPACE=default": true, "K8S_POD_NAME=p": true, "K8S_POD_NAMESPACE=": true,
	} {
		if _, passed := Through(environment(args(text)), withNamespaces); passed == governed {
			t.Errorf("%q: passed %v", text, passed)
		}
		if _, passed := Through(environment(args(text)), stdin(`,"prevResult":`+prevResult)); !passed {
			t.Errorf("%q: doesn't pass where no namespace is governed", text)
		}
	}
}

// I1: whatever bytes come, no governed pod passes, and what passes is what came.
func FuzzThrough(f *testing.F) {
	f.Add(stdin(`,"prevResult":`+prevResult), "K8S_POD_NAMESPACE=default")
	f.Add(stdin(`,"governedNamespaces":["agents"],"prevResult":`+prevResult), "K8S_POD_NAMESPACE=agents")
	for _, runtime := range annotatedTwice {
		f.Add(stdin(`,`+runtime+`,"prevResult":`+prevResult), "K8S_POD_NAMESPACE=default")
	}
	f.Add(withNamespaces, "K8S_POD_NAMESPACE=agents;K8S_POD_NAMESPACE=default")
	f.Add(withNamespaces, "K8S_POD_NAMESPACE=;K8S_POD_NAME=p")
	f.Fuzz(func(t *testing.T, data []byte, args string) {
		got, passed := Through(environment(map[string]string{"CNI_ARGS": args}), data)
		r, err := Parse(data)
		if passed && (err != nil || r.Governs(PodOf(args)) || string(got) != string(r.PrevResult)+"\n") {
			t.Errorf("%q with %q passed as %q", data, args, got)
		}
	})
}
