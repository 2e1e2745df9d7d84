package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-cni/holdfast/watcher/cluster"
)

func newLeave() *cobra.Command {
	var timeout time.Duration
	var kubeconfig string
	var o cluster.Options
	cmd := &cobra.Command{
		Use:   "leave",
		Short: "Take Holdfast out of the cluster before it is uninstalled",
		Long: `Leave asks the watcher and every node to let go, and waits until they have: the ConfigMap that Cilium reads holds Cilium's
entry alone, and no node carries the label holdfast.dev/installed. The chart runs it before helm uninstall removes anything.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Validate(); err != nil {
				return usageError{err}
			}
			config, err := clusterConfig(kubeconfig)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return cluster.Leave(ctx, config, o, cmd.OutOrStdout())
		},
	}
	releaseFlags(cmd, &o)
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "how long to wait")
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file, for a run outside the cluster")
	return cmd
}
