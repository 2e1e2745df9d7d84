package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-cni/holdfast/watcher/cluster"
)

func newLeave() *cobra.Command {
	var timeout time.Duration
	var cilium bool
	var o release
	cmd := &cobra.Command{
		Use:   "leave",
		Short: "Take Holdfast out of the cluster before it is uninstalled",
		Long: `Leave asks the watcher and every node to let go, and waits until they have: the ConfigMap that Cilium reads holds Cilium's
entry alone, and no node carries the label holdfast.dev/installed. When the time is over it names who has not. The chart runs
it before helm uninstall removes anything.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := o.connect()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			if !cilium {
				return cluster.LeaveNodes(ctx, config, o.Options, cmd.OutOrStdout())
			}
			return cluster.Leave(ctx, config, o.Options, cmd.OutOrStdout())
		},
	}
	o.flags(cmd)
	cmd.Flags().BoolVar(&cilium, "cilium", true, "the cluster's network is Cilium's, whose list the watcher lets go of; without it nodes alone are waited for")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "how long to wait")
	return cmd
}
