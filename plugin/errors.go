package plugin

import (
	"errors"
	"fmt"
	"strings"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/holdfast-cni/holdfast/agent/adopt"
	"github.com/holdfast-cni/holdfast/plugin/pass"
)

// The plugin's own codes; the specification leaves those from 100 on to plugins (section "Error").
const (
	// CodeRefused means that the agent refused the pod, and will again.
	CodeRefused uint = 100
	// CodeLock means that the kernel did not take the lock, or does not hold it as it was put on.
	CodeLock uint = 101
	// CodeState means that what was kept of the sandbox is missing or of another one.
	CodeState uint = 102
)

// about begins each message, because runtimes don't say which plugin of a chain failed.
const about = "holdfast-cni: "

func fail(code uint, fix, format string, args ...any) *types.Error {
	return types.NewError(code, about+fmt.Sprintf(format, args...), fix)
}

func errUnreadable(err error) *types.Error {
	return fail(types.ErrDecodingFailure, "correct plugin.json in Holdfast's ConfigMap", "the configuration can't be read: %v", err)
}

func errNoPrevResult() *types.Error {
	return fail(types.ErrInvalidNetworkConfig, "chain it behind the cluster's network plugin, it does nothing alone", "there is no prevResult")
}

func errPrevResult(err error) *types.Error {
	return fail(types.ErrInvalidNetworkConfig, "see what the plugin before holdfast-cni returns", "the prevResult can't be passed on: %v", err)
}

func errConfig(p pass.Pod, err error) *types.Error {
	return fail(types.ErrInvalidNetworkConfig, "correct plugin.json in Holdfast's ConfigMap, or install holdfast-cni and chart of one release",
		"pod %s is governed, and the configuration is refused: %v", p, err)
}

func errIdentity(what string) *types.Error {
	return fail(types.ErrInvalidEnvironmentVariables, "start the pod through the kubelet",
		"a governed pod needs %s, and the runtime gave none that can be used", what)
}

func errNetns(p pass.Pod, err error) *types.Error {
	return fail(types.ErrInvalidNetNS, "delete the pod, if it isn't gone", "pod %s can't be locked: %v", p, err)
}

func errLock(p pass.Pod, err error) *types.Error {
	return fail(CodeLock, "see that the node runs Linux 5.10 or later with nf_tables; the pod stays closed", "pod %s can't be locked: %v", p, err)
}

func errAgain(p pass.Pod, err error) *types.Error {
	return fail(CodeState, "delete the pod; it stays closed", "the network of pod %s is locked already, and not by this sandbox's own start: %v", p, err)
}

func errState(p pass.Pod, err error) *types.Error {
	return fail(types.ErrIOFailure, "see that /run/holdfast is root's own, and has room; the pod stays closed", "pod %s: %v", p, err)
}

func errChecked(p pass.Pod, err error) *types.Error {
	return fail(CodeLock, "delete the pod", "the lock of pod %s isn't as it was put on: %v", p, err)
}

func errOutput(err error) *types.Error {
	return fail(types.ErrIOFailure, "see the runtime's log", "the result can't be written: %v", err)
}

// errAdopt is why the agent didn't take the pod. Whether the runtime is to try again, as it is, is told by the code.
func errAdopt(p pass.Pod, err error) *types.Error {
	var no *adopt.Refusal
	switch {
	case !errors.As(err, &no):
		return fail(types.ErrTryAgainLater, "see that the DaemonSet agent runs on this node", "pod %s is governed and stays closed: %v", p, err)
	case no.Retry:
		return fail(types.ErrTryAgainLater, no.Fix, "the agent can't take pod %s yet (%s): %s", p, no.Code, no.Says)
	}
	return fail(CodeRefused, no.Fix, "the agent refuses pod %s (%s): %s", p, no.Code, no.Says)
}

// fixed gives an error of skel's, which says only what is wrong, a fix.
func fixed(err *types.Error) *types.Error {
	if strings.HasPrefix(err.Msg, about) {
		return err
	}
	fix := "report this as a fault of Holdfast"
	switch err.Code {
	case types.ErrIncompatibleCNIVersion:
		fix = "use a cniVersion of " + strings.Join(pass.Versions(), ", ")
	case types.ErrInvalidEnvironmentVariables:
		fix = "call it as a CNI runtime does"
	case types.ErrDecodingFailure, types.ErrInvalidNetworkConfig:
		fix = "correct the network list that holds it"
	case types.ErrInvalidNetNS:
		fix = "give the path of the pod's own network namespace"
	}
	if err.Details != "" {
		fix = err.Details + "; " + fix
	}
	return types.NewError(err.Code, about+err.Msg, fix)
}
