package main

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/watcher/install"
)

func newInstallCNI() *cobra.Command {
	var level slog.Level
	var r release
	var address apiAddress
	o := install.Options{CheckPlugin: checkPlugin}
	var strategy string
	cmd := &cobra.Command{
		Use:   "install-cni",
		Short: "Keep the plugin chained on this node, prove it at the runtime, and open or close the node",
		Long: `Install-cni chains the plugin after the node's own network plugin and keeps it chained. The node is open only while the
runtime says that the list it loaded ends with exactly the entry of plugin.json; else it has the taint holdfast.dev/unchained,
the label holdfast.dev/node=false, and the condition HoldfastChained=False with the reason and the fix. It runs on every node
with the label holdfast.dev/node; when that is removed, it takes everything out again. Nothing is undone when it stops.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Namespace, o.Release, o.CiliumNamespace, o.ConfigMap = r.Namespace, r.Release, r.CiliumNamespace, r.ConfigMap
			o.Strategy = chaining.Strategy(strategy)
			config, err := r.connect()
			if err != nil {
				return err
			}
			address.apply(config)
			if err := o.Validate(); err != nil {
				return usageError{err}
			}
			return install.Run(cmd.Context(), config, o, setLog(cmd.ErrOrStderr(), level))
		},
	}
	f := cmd.Flags()
	r.flags(cmd)
	address.flags(cmd)
	f.StringVar(&o.Node, "node", os.Getenv("NODE_NAME"), "name of this Node; NODE_NAME by default")
	f.BoolVar(&o.Cilium, "cilium", true, "read Cilium's settings: the network may be Cilium's")
	f.StringVar(&o.HostRoot, "host-root", "/host", "where the node's root, or parts of it, are mounted")
	f.StringVar(&o.Socket, "cri-socket", "", "the runtime's CRI socket, as the node sees it; by default what the kubelet is told, else a known one")
	f.StringVar(&o.ConfDir, "conf-dir", "", "CNI configuration directory, as the node sees it; by default what the runtime says")
	f.StringVar(&o.BinDir, "bin-dir", "", "directory of plugins, as the node sees it; by default what the runtime says")
	f.StringVar(&o.Binary, "binary", "", "executable to install under the plugin's type; by default somebody else puts it on the node")
	f.StringVar(&strategy, "strategy", "", "the only strategy allowed: cilium, drop-in or list; by default the best that works")
	f.StringVar(&o.MetricsAddress, "metrics-bind-address", ":9643", "host:port to serve Prometheus metrics on; 0 for none")
	f.StringVar(&o.HealthAddress, "health-probe-bind-address", "127.0.0.1:9644", "host:port to serve /healthz and /readyz on; empty for none")
	f.TextVar(&level, "log-level", slog.LevelInfo, "lowest level to log: debug, info, warn or error")
	return cmd
}
