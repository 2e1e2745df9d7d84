package plugin

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const full = `{
  "type": "holdfast-cni",
  "capabilities": {"io.kubernetes.cri.pod-annotations": true},
  "resolvers": ["10.96.0.10", "fd00::a", "169.254.20.10"],
  "governedNamespaces": ["agents"],
  "allowPrivate": ["10.1.0.0/16", "fd12::/64"],
  "refuse": ["203.0.113.0/24"],
  "sidecar": {"images": ["sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"]},
  "ingress": {"ports": [8080]},
  "seccompProfiles": ["profiles/agent.json"],
  "runtimeClasses": ["runc-2"]
}`

// N8, N9.
func TestParseConfigReadsEveryKey(t *testing.T) {
	got, err := ParseConfig([]byte(full), "kube-system")
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Type:               Type,
		Capabilities:       map[string]bool{PodAnnotations: true},
		Resolvers:          []string{"10.96.0.10", "fd00::a", "169.254.20.10"},
		GovernedNamespaces: []string{"agents"},
		AllowPrivate:       []string{"10.1.0.0/16", "fd12::/64"},
		Refuse:             []string{"203.0.113.0/24"},
		Sidecar:            Sidecar{Images: []string{"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}},
		Ingress:            Ingress{Ports: []int{8080}},
		SeccompProfiles:    []string{"profiles/agent.json"},
		RuntimeClasses:     []string{"runc-2"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// N7, N8: each fault is refused with its key and its fix.
func TestParseConfigRefusesBadInput(t *testing.T) {
	const head = `{"type":"holdfast-cni","capabilities":{"io.kubernetes.cri.pod-annotations":true},"resolvers":["10.96.0.10"]`
	tests := map[string]struct{ in, want string }{
		"empty":                  {``, `plugin.json: `},
		"truncated":              {full[:80], `plugin.json: `},
		"trailing garbage":       {head + `} x`, `plugin.json: `},
		"not UTF-8":              {head + ",\"refuse\":[\"\xff\"]}", `invalid UTF-8`},
		"an array":               {`[]`, `is an array; write an object`},
		"duplicate key":          {head + `,"type":"x"}`, `duplicate`},
		"unknown key":            {head + `,"resolver":[]}`, `resolver: unknown key`},
		"key in other case":      {head + `,"Refuse":[]}`, `Refuse: unknown key`},
		"nested unknown key":     {head + `,"sidecar":{"image":"x"}}`, `sidecar.image: unknown key`},
		"string for array":       {head + `,"refuse":"10.0.0.0/8"}`, `refuse: is a string; write an array`},
		"number for string":      {head + `,"refuse":[10]}`, `refuse[0]: is a number`},
		"string for number":      {head + `,"ingress":{"ports":["80"]}}`, `ingress.ports[0]: is a string; write a whole number`},
		"fraction":               {head + `,"ingress":{"ports":[80.5]}}`, `ingress.ports[0]: is a number that does not fit; write a whole number`},
		"another type":           {strings.Replace(head, "holdfast-cni", "other", 1) + `}`, `type "other": is not this plugin`},
		"no capability":          {`{"type":"holdfast-cni","capabilities":{},"resolvers":["10.96.0.10"]}`, `capabilities: lack "io.kubernetes.cri.pod-annotations"`},
		"foreign capability":     {strings.Replace(head, `":true}`, `":true,"portMappings":true}`, 1) + `}`, `capabilities["portMappings"]: not one the plugin uses`},
		"no resolvers":           {`{"type":"holdfast-cni","capabilities":{"io.kubernetes.cri.pod-annotations":true},"resolvers":[]}`, `resolvers: empty; list`},
		"resolver not an IP":     {strings.Replace(head, `10"]`, `10","10.0.0"]`, 1) + `}`, `resolvers[1] "10.0.0": not an IP address`},
		"resolver with zone":     {strings.Replace(head, `10.96.0.10`, `fe80::1%eth0`, 1) + `}`, `has a zone`},
		"resolver mapped":        {strings.Replace(head, `10.96.0.10`, `::ffff:10.0.0.1`, 1) + `}`, `write 10.0.0.1`},
		"resolver loopback":      {strings.Replace(head, `10.96.0.10`, `127.0.0.53`, 1) + `}`, `cannot be a DNS server's address`},
		"resolver twice":         {strings.Replace(head, `10"]`, `10","10.96.0.10"]`, 1) + `}`, `resolvers[1] "10.96.0.10": stands at [0] already`},
		"resolver not canonical": {strings.Replace(head, `10.96.0.10`, `FD00::0a`, 1) + `}`, `write fd00::a`},
		"reserved namespace":     {head + `,"governedNamespaces":["kube-system"]}`, `governedNamespaces[0] "kube-system": is never governed`},
		"bad namespace":          {head + `,"governedNamespaces":["A_b"]}`, `not a namespace name`},
		"range is an address":    {head + `,"allowPrivate":["10.0.0.1"]}`, `allowPrivate[0] "10.0.0.1": not a range in CIDR form`},
		"range with host bits":   {head + `,"allowPrivate":["10.1.2.3/16"]}`, `write 10.1.0.0/16`},
		"range is everything":    {head + `,"allowPrivate":["0.0.0.0/0"]}`, `is every address`},
		"bad digest":             {head + `,"sidecar":{"images":["sha256:00"]}}`, `sidecar.images[0] "sha256:00": not a digest`},
		"bad port":               {head + `,"ingress":{"ports":[0]}}`, `ingress.ports[0] 0: not a port`},
		"profile outside":        {head + `,"seccompProfiles":["../x"]}`, `not a path inside`},
		"bad class":              {head + `,"runtimeClasses":["a..b"]}`, `runtimeClasses[0] "a..b": not a RuntimeClass's name`},
		"what the lock refuses":  {head + `,"allowPrivate":["10.0.0.0/8","169.254.0.0/16"]}`, `plugin.json: allowPrivate[1] 169.254.0.0/16: holds 169.254.`},
		"digest in upper case":   {head + `,"sidecar":{"images":["sha256:` + strings.Repeat("A", 64) + `"]}}`, `not a digest`},
		"namespace with a dash":  {head + `,"governedNamespaces":["a-"]}`, `not a namespace name`},
		"profile absolute":       {head + `,"seccompProfiles":["/x"]}`, `not a path inside`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := ParseConfig([]byte(test.in), "kube-system")
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want it to contain %q", err, test.want)
			}
		})
	}
}

// N7.
func TestValidateReportsEveryFaultAtOnce(t *testing.T) {
	err := Config{Type: "x", Refuse: []string{"y"}}.Validate()
	for _, want := range []string{"type", "capabilities", "resolvers", "refuse[0]"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %s", err, want)
		}
	}
}

// Every list that becomes part of the lock is bounded, and by no less than what is proved to work. (I1)
func TestListsThatAreTooLong(t *testing.T) {
	lists := func(count int) Config {
		c := Config{Type: Type, Capabilities: map[string]bool{PodAnnotations: true}}
		for i := range count {
			c.Resolvers = append(c.Resolvers, fmt.Sprintf("10.96.%d.%d", i>>8, i&0xff))
			c.AllowPrivate = append(c.AllowPrivate, fmt.Sprintf("10.%d.%d.0/24", i>>8, i&0xff))
			c.Refuse = append(c.Refuse, fmt.Sprintf("11.%d.%d.0/24", i>>8, i&0xff))
			c.Ingress.Ports = append(c.Ingress.Ports, i+1)
		}
		return c
	}
	if err := lists(most).Validate(); err != nil {
		t.Errorf("as long as they may be: %v", err)
	}
	err := lists(most + 1).Validate()
	for _, key := range []string{"resolvers", "allowPrivate", "refuse", "ingress.ports"} {
		if want := fmt.Sprintf("plugin.json: %s: 1001 entries, more than 1000; ", key); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to contain %q", err, want)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte(`{"type":"holdfast-cni"`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseConfig(data)
		if err == nil && c.Validate() != nil {
			t.Errorf("accepted what it refuses: %q", data)
		}
	})
}

// I1: of whatever a runtime hands over, rules come out that hold something, or an error.
func FuzzRulesOf(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte(`{"cniVersion":"1.0.0","name":"n","prevResult":{},"runtimeConfig":{},` + full[1:]))
	f.Fuzz(func(t *testing.T, data []byte) {
		rules, err := rulesOf(data)
		if err == nil && !strings.Contains(rules.Text(), "64128") {
			t.Errorf("%q makes rules without the sidecar: %s", data, rules.Text())
		}
	})
}
