package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-cni/holdfast/agent"
)

func newCut() *cobra.Command {
	var reason string
	var wait time.Duration
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	overrides := &clientcmd.ConfigOverrides{}
	cmd := &cobra.Command{
		Use:   "cut POD --reason TEXT",
		Short: "Cut a governed pod off from the network, at once and for good",
		Long: `Cut annotates the pod with holdfast.dev/cut, as you, and waits until the agent of its node has cut it off and said so in
the annotation holdfast.dev/cut-off. Live connections end too. Nothing brings that pod back: delete it, and its owner makes a new one.
Where kubectl and a kubeconfig are all there is, kubectl annotate pod POD holdfast.dev/cut=REASON does the same.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" {
				return usageError{errors.New("--reason is missing: say why, it is kept with the pod")}
			}
			loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
			config, err := loader.ClientConfig()
			if err != nil {
				return usageError{err}
			}
			namespace, _, err := loader.Namespace()
			if err != nil {
				return usageError{err}
			}
			kube, err := kubernetes.NewForConfig(config)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), wait)
			defer cancel()
			said, err := agent.RequestCut(ctx, kube, namespace, args[0], reason)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "pod %s/%s was cut off: %s\n", namespace, args[0], said)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&reason, "reason", "", "why, in a line")
	f.StringVarP(&overrides.Context.Namespace, "namespace", "n", "", "the pod's namespace; by default that of the kubeconfig's context")
	f.StringVar(&rules.ExplicitPath, "kubeconfig", "", "kubeconfig file; by default as kubectl finds it")
	f.StringVar(&overrides.CurrentContext, "context", "", "context of the kubeconfig")
	f.DurationVar(&wait, "timeout", 30*time.Second, "how long to wait for the agent")
	return cmd
}
