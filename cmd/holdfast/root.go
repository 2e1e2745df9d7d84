package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// newRoot is the command tree. A command's own errors are said once, by run.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "holdfast",
		Short:         "Keep an enforcement CNI plugin chained behind a cluster's own",
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
	})
	root.AddCommand(newRender(), newDoctor(), newInstallCNI(), newAgent(), newWatch(), newCut(), newLeave())
	for _, cmd := range append(root.Commands(), root) {
		check := cmd.Args
		if check == nil {
			check = cobra.NoArgs
		}
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
			}
			return nil
		}
	}
	return root
}

// version is that of the module, as the go command recorded it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "(unknown)"
}
