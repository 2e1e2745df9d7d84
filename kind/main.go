// Command kind makes Kubernetes clusters for demonstrations and tests: kind with the real Cilium, or with simple networks,
// from released images or, where no registry answers, from images made here. Run it at the top of the working tree.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

const usage = `usage:
  kind up [flags] NET     make a cluster with this network
  kind down               remove the cluster and everything it made on this machine
  kind load IMAGE...      bring images of the engine, or archives (*.tar), onto every node
  kind network NET        bring a network to a cluster that was made with NET=late
  kind env                print the variables that reach cluster and engine, for eval
  kind image              make the node image now instead of with the first cluster

networks: %s

flags of every verb but image:
  -name NAME              of the cluster (default "holdfast")
flags of up:
  -nodes N                1 to 3 (default 2); the first is the control plane and runs pods too
  -dual                   IPv4 and IPv6
  -registered             nodes register with label holdfast.dev/node=false and our taint
  -port PORT              of the API server on this machine (default: a free one)
  -keep                   leave what was made when something fails, to look at it
flags of up and network:
  -configmap FILE         apply this before Cilium; "none": do not, and do not wait for the network (default: Cilium alone)
  -no-tolerations         Cilium's operator does not tolerate our taint
  -set KEY=VALUE          a value of Cilium's chart, as often as needed
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kind:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	verb := ""
	if len(args) > 0 {
		verb, args = args[0], args[1:]
	}
	c := cluster{}
	flags := flag.NewFlagSet("kind", flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprintf(os.Stderr, usage, strings.Join(networkNames(), " ")) }
	flags.StringVar(&c.Name, "name", "holdfast", "")
	flags.IntVar(&c.Nodes, "nodes", 2, "")
	flags.BoolVar(&c.Dual, "dual", false, "")
	flags.BoolVar(&c.Registered, "registered", false, "")
	flags.BoolVar(&c.noTolerations, "no-tolerations", false, "")
	flags.StringVar(&c.configMap, "configmap", "", "")
	flags.Func("set", "", func(value string) error {
		c.set = append(c.set, value)
		return nil
	})
	flags.IntVar(&c.port, "port", 0, "")
	flags.BoolVar(&c.keep, "keep", false, "")
	if err := flags.Parse(args); err != nil {
		return flag.ErrHelp
	}
	if err := c.locate(); err != nil {
		return err
	}
	rest := flags.Args()
	switch {
	case verb == "up" && len(rest) == 1:
		c.Net = rest[0]
		if err := c.validate(); err != nil {
			return err
		}
		return c.locked(ctx, func() error { return c.up(ctx) })
	case verb == "down" && len(rest) == 0:
		return c.locked(ctx, func() error { return c.down(ctx) })
	case verb == "load" && len(rest) > 0:
		return c.load(ctx, rest)
	case verb == "network" && len(rest) == 1 && slices.Contains(networkNames(), rest[0]):
		return c.attach(ctx, rest[0])
	case verb == "env" && len(rest) == 0:
		return c.env(ctx)
	case verb == "image" && len(rest) == 0:
		return c.locked(ctx, func() error { return c.image(ctx) })
	}
	flags.Usage()
	return flag.ErrHelp
}
