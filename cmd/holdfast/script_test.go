package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"helm.sh/helm/v4/pkg/strvals"

	"github.com/holdfast-cni/holdfast/e2e/controlplane"
	"github.com/holdfast-cni/holdfast/helm"
)

var update = flag.Bool("update", false, "rewrite what the scripts compare with")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"holdfast": func() { os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// TestRender runs the stories in testdata/render: the command as a person types it, what it prints and its exit code.
func TestRender(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/render",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"cilium-chart": ciliumChart, "exits": exits},
	})
}

// ciliumChart writes what Cilium's own chart, from the module, renders with the values: cilium-chart FILE [KEY=VALUE]…
func ciliumChart(ts *testscript.TestScript, _ bool, args []string) {
	cilium, err := controlplane.CiliumModule()
	ts.Check(err)
	chart, err := helm.LoadDir(cilium + "/install/kubernetes/cilium")
	ts.Check(err)
	values := map[string]any{}
	for _, set := range args[1:] {
		ts.Check(strvals.ParseInto(set, values))
	}
	manifests, _, err := helm.Render(chart, helm.RenderOptions{Release: "cilium", Namespace: "kube-system", Values: values, DisableHooks: true})
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(manifests), 0o600))
}

// exits runs a command that must end with the code: exits CODE COMMAND [ARG]…
func exits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = exitCode(err)
	}
	if got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}

func exitCode(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return strconv.Itoa(exit.ExitCode())
	}
	return err.Error()
}

// TestDoctor runs the stories in testdata/doctor; NODES are copies of nodes.
func TestDoctor(t *testing.T) {
	nodes, err := filepath.Abs("../../e2e/testdata/nodes")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/doctor",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
		Setup: func(env *testscript.Env) error {
			env.Setenv("NODES", nodes)
			return nil
		},
	})
}
