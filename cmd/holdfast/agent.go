package main

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-cni/holdfast/agent"
	"github.com/holdfast-cni/holdfast/agent/adopt"
	"github.com/holdfast-cni/holdfast/agent/contract"
	"github.com/holdfast-cni/holdfast/plugin"
)

func newAgent() *cobra.Command {
	var level slog.Level
	var r release
	var address apiAddress
	var cilium bool
	o := agent.Options{Read: governing, Socket: adopt.Socket, States: adopt.States, Version: version()}
	var existing string
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Keep the governed pods of this node: adopt, renew, verify, cut off",
		Long: `Agent lends the governed pods of its node their network: it adopts a pod that keeps its contract when holdfast-cni asks
for it, renews each lease every 5 s, and compares the rules in the kernel with what was recorded at the pod's start. A pod that
it can't vouch for any more is cut off for good: when its lease ran out, its rules were changed, an update broke its contract, it
runs without a lock, or somebody asked for it (holdfast cut). It is ready once it has renewed every lease twice.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Namespace, o.Release, o.Existing = r.Namespace, r.Release, agent.Existing(existing)
			if cilium {
				o.CiliumNamespace = r.CiliumNamespace
			}
			config, err := r.connect()
			if err != nil {
				return err
			}
			address.apply(config)
			if err := o.Validate(); err != nil {
				return usageError{err}
			}
			return agent.Run(cmd.Context(), config, o, setLog(cmd.ErrOrStderr(), level))
		},
	}
	f := cmd.Flags()
	r.flags(cmd)
	address.flags(cmd)
	f.StringVar(&o.Node, "node", os.Getenv("NODE_NAME"), "name of this Node; NODE_NAME by default")
	f.BoolVar(&cilium, "cilium", true, "Cilium's namespace is never governed: the network may be Cilium's")
	f.StringVar(&o.HostRoot, "host-root", "/host", "where the part of the node's root is mounted that the runtime's socket is in")
	f.StringVar(&o.CRISocket, "cri-socket", "", "the runtime's CRI socket, as the node sees it; by default a known one")
	f.StringVar(&o.Memory, "memory", "/var/lib/holdfast", "folder that outlives the node's boots, for what must not be forgotten of pods that were cut off")
	f.StringVar(&existing, "existing-pods", string(agent.Report), "what becomes of pods that were there before their namespace was governed: report, or cut; both mark them for eviction")
	f.IntVar(&o.ExistingLimit, "existing-pods-limit", 5, "how many such pods of this node are acted on before a person has to look")
	f.StringVar(&o.MetricsAddress, "metrics-bind-address", ":9645", "host:port to serve Prometheus metrics on; 0 for none")
	f.StringVar(&o.HealthAddress, "health-probe-bind-address", "127.0.0.1:9646", "host:port to serve /healthz and /readyz on; empty for none")
	f.TextVar(&level, "log-level", slog.LevelInfo, "lowest level to log: debug, info, warn or error")
	return cmd
}

// governing is what the agent goes by of plugin.json.
func governing(data []byte, reserved ...string) (agent.Governing, error) {
	c, err := plugin.ParseConfig(data, reserved...)
	if err != nil {
		return agent.Governing{}, err
	}
	return agent.Governing{Namespaces: c.GovernedNamespaces, Policy: contract.Policy{
		Images: c.Sidecar.Images, SeccompProfiles: c.SeccompProfiles, RuntimeClasses: c.RuntimeClasses,
	}}, nil
}
