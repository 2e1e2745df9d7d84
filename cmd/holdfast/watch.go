package main

import (
	"io"
	"log/slog"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-cni/holdfast/watcher/cluster"
)

func newWatch() *cobra.Command {
	var level slog.Level
	var address apiAddress
	o := release{Options: cluster.Options{CheckPlugin: checkPlugin}}
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Own the ConfigMap that Cilium reads its CNI list from, and report what is wrong",
		Long: `Watch keeps the ConfigMap that Cilium reads through cni.configMap: Cilium's own entry, then exactly plugin.json.
It repairs what others change, never takes over what it did not write, and reports findings as Events, log lines, metrics
and in the ConfigMap <release>-holdfast-status. It runs in the cluster; of several, one acts.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := o.connect()
			if err != nil {
				return err
			}
			o.APIAddress = address.apply(config)
			return cluster.Run(cmd.Context(), config, o.Options, setLog(cmd.ErrOrStderr(), level))
		},
	}
	f := cmd.Flags()
	o.flags(cmd)
	address.flags(cmd)
	f.BoolVar(&o.Adopt, "adopt", false, "take over a ConfigMap of that name that Holdfast did not write")
	f.BoolVar(&o.FastSync, "fast-sync", true, "ask kubelets to sync a changed list at once, where the policy that bounds this is installed")
	f.StringVar(&o.MetricsAddress, "metrics-bind-address", ":9641", "host:port to serve Prometheus metrics on; 0 for none")
	f.StringVar(&o.HealthAddress, "health-probe-bind-address", "127.0.0.1:9642", "host:port to serve /healthz and /readyz on; empty for none")
	f.TextVar(&level, "log-level", slog.LevelInfo, "lowest level to log: debug, info, warn or error")
	return cmd
}

// setLog makes everything in the process log JSON lines of one shape.
func setLog(w io.Writer, level slog.Level) logr.Logger {
	handler := slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})
	log := logr.FromSlogHandler(handler)
	slog.SetDefault(slog.New(handler))
	klog.SetLogger(log)
	ctrllog.SetLogger(log)
	return log
}
