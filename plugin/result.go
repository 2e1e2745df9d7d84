package plugin

import (
	"encoding/json"

	"github.com/containernetworking/cni/pkg/version"

	"github.com/holdfast-cni/holdfast/plugin/pass"
)

// resultOf is what ADD prints: the prevResult, byte for byte where it is of the version that the configuration asks for, as it is from
// libcni, and else converted (CNI specification, section "ADD": the plugin answers in the configuration's version).
func resultOf(r pass.Request) ([]byte, error) {
	if !r.HasResult() {
		return nil, errNoPrevResult()
	}
	from, err := r.ResultVersion()
	if err != nil {
		return nil, errPrevResult(err)
	}
	if from == "" || from == r.CNIVersion {
		return r.Same(), nil
	}
	previous, err := version.NewResult(from, r.PrevResult)
	if err != nil {
		return nil, errPrevResult(err)
	}
	converted, err := previous.GetAsVersion(r.CNIVersion)
	if err != nil {
		return nil, errPrevResult(err)
	}
	text, err := json.Marshal(converted)
	if err != nil {
		return nil, errPrevResult(err)
	}
	return append(text, '\n'), nil
}

func parse(stdin []byte) (pass.Request, error) {
	r, err := pass.Parse(stdin)
	if err != nil {
		return r, errUnreadable(err)
	}
	return r, nil
}
