package plugin

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/google/go-cmp/cmp"
)

const prevResult = `{"cniVersion":"1.0.0","interfaces":[{"name":"eth0","sandbox":"/x"}],"ips":[{"address":"10.0.0.2/24","interface":0}],"dns":{}, "unknown": 1e3}`

func stdin(parts string) []byte {
	return []byte(`{"cniVersion":"1.0.0","name":"cilium","type":"holdfast-cni","resolvers":["10.96.0.10"]` + parts + `}`)
}

// I2: an ungoverned pod's result passes as it came, whatever else the configuration says.
func TestAddPassesUngovernedPods(t *testing.T) {
	tests := map[string]string{
		"plain":                  ``,
		"unknown keys":           `,"from":"a newer release","resolvers2":[1]`,
		"another namespace":      `,"governedNamespaces":["agents"]`,
		"annotation not true":    `,"runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"holdfast.dev/governed":"yes"}}`,
		"annotations of no kind": `,"runtimeConfig":{"io.kubernetes.cri.pod-annotations":{}}`,
	}
	for name, config := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			args := &skel.CmdArgs{Args: "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=p", StdinData: stdin(config + `,"prevResult":` + prevResult)}
			if err := add(args, &out); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(prevResult+"\n", out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// I1: without a lock no governed pod starts.
func TestAddRefusesGovernedPodsAndBadInput(t *testing.T) {
	tests := map[string]struct {
		stdin []byte
		code  uint
		says  string
	}{
		"N8 a governed namespace":   {stdin(`,"governedNamespaces":["agents"],"prevResult":` + prevResult), types.ErrTryAgainLater, "pod agents/p is governed"},
		"an annotation":             {stdin(`,"runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"holdfast.dev/governed":"true"}},"prevResult":` + prevResult), types.ErrTryAgainLater, "governed"},
		"no prevResult":             {stdin(``), types.ErrInvalidNetworkConfig, "no prevResult"},
		"a prevResult that is null": {stdin(`,"prevResult":null`), types.ErrInvalidNetworkConfig, "no prevResult"},
		"truncated":                 {[]byte(`{"type":`), types.ErrDecodingFailure, "cannot be read"},
		"a list of another kind":    {stdin(`,"governedNamespaces":"agents"`), types.ErrDecodingFailure, "cannot be read"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := add(&skel.CmdArgs{Args: "K8S_POD_NAMESPACE=agents;K8S_POD_NAME=p", StdinData: test.stdin}, &out)
			var cni *types.Error
			if !errors.As(err, &cni) || cni.Code != test.code || !strings.Contains(cni.Msg, test.says) || cni.Details == "" {
				t.Errorf("got %v, want code %d and %q with a fix", err, test.code, test.says)
			}
			if out.Len() > 0 {
				t.Errorf("a result beside the error: %s", &out)
			}
		})
	}
}
