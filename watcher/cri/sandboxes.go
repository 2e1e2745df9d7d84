package cri

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Sandbox is a pod that runs, as the runtime was told of it when it made the sandbox.
type Sandbox struct {
	ID                   string
	Namespace, Name, UID string // a static pod's UID is the hash of its file
	Attempt              uint32
	Created              time.Time
	// Annotations are the pod's at that moment.
	Annotations map[string]string
}

// Inside is where a sandbox runs.
type Inside struct {
	// HostNetwork: it has the node's own network.
	HostNetwork bool
	// NetNS is the path of its network namespace, as the node sees it, and PID a process in it; empty and 0 where the runtime does not
	// tell.
	NetNS string
	PID   int
}

// Sandboxes lists those that are ready. One that is not has no network any more, or not yet. The context needs a deadline.
func (r *Runtime) Sandboxes(ctx context.Context) ([]Sandbox, error) {
	said, err := r.client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
		State: &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
	}})
	if err != nil {
		return nil, r.failed("ListPodSandbox", err)
	}
	list := make([]Sandbox, 0, len(said.GetItems()))
	for _, s := range said.GetItems() {
		if s.GetState() != runtimeapi.PodSandboxState_SANDBOX_READY || s.GetId() == "" {
			continue
		}
		m := s.GetMetadata()
		list = append(list, Sandbox{
			ID: s.GetId(), Namespace: m.GetNamespace(), Name: m.GetName(), UID: m.GetUid(), Attempt: m.GetAttempt(),
			Created: time.Unix(0, s.GetCreatedAt()), Annotations: s.GetAnnotations(),
		})
	}
	return list, nil
}

// Inside asks where a sandbox runs. The context needs a deadline.
func (r *Runtime) Inside(ctx context.Context, id string) (Inside, error) {
	said, err := r.client.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id, Verbose: true})
	if err != nil {
		return Inside{}, r.failed("PodSandboxStatus", err)
	}
	options := said.GetStatus().GetLinux().GetNamespaces().GetOptions()
	if options.GetNetwork() == runtimeapi.NamespaceMode_NODE {
		return Inside{HostNetwork: true}, nil
	}
	in, err := inside(said.GetInfo()[sandboxKey])
	if err != nil {
		return Inside{}, fmt.Errorf("PodSandboxStatus of %s, sandbox %s: %w", r.socket, id, err)
	}
	return in, nil
}

// sandboxKey is that of the verbose status of a sandbox (containerd v2.4.2, internal/cri/server/sandbox_status.go: toCRISandboxInfo;
// CRI-O, server/sandbox_status.go: createSandboxInfo). What is in it has no version.
const sandboxKey = "info"

func inside(text string) (Inside, error) {
	if text == "" {
		return Inside{}, nil
	}
	var said struct {
		PID      int `json:"pid"`
		Metadata struct {
			Metadata struct{ NetNSPath string }
		} `json:"sandboxMetadata"`
		Spec struct {
			Linux struct {
				Namespaces []struct{ Type, Path string } `json:"namespaces"`
			} `json:"linux"`
		} `json:"runtimeSpec"`
	}
	if err := json.Unmarshal([]byte(text), &said); err != nil {
		return Inside{}, fmt.Errorf("its %s: %w", sandboxKey, err)
	}
	in := Inside{PID: max(said.PID, 0), NetNS: said.Metadata.Metadata.NetNSPath}
	for _, ns := range said.Spec.Linux.Namespaces {
		if ns.Type == "network" && ns.Path != "" {
			in.NetNS = ns.Path
		}
	}
	return in, nil
}
