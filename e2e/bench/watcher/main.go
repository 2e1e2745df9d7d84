// Command watcher measures the cluster watcher on a real API server and prints one table; it exits 1 if a goal is missed.
//
// A machine is fast or slow, busy or idle: goals of time are judged as ratios of two things measured in the same run, and the
// absolute numbers stand beside them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-cni/holdfast/e2e/bench/figure"
	"github.com/holdfast-cni/holdfast/e2e/controlplane"
	"github.com/holdfast-cni/holdfast/e2e/demo/product"
	"github.com/holdfast-cni/holdfast/helm"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	err := run(ctx, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

// bench is one run: a control plane with the chart installed, and the rows measured so far.
type bench struct {
	plane   *controlplane.ControlPlane
	folder  string
	release *product.Release
	out     io.Writer // progress
	table   figure.Table
}

func run(ctx context.Context, stdout, stderr io.Writer) (err error) {
	discard := logr.FromSlogHandler(slog.DiscardHandler)
	slog.SetDefault(slog.New(slog.DiscardHandler))
	klog.SetLogger(discard)
	ctrllog.SetLogger(discard)
	b := &bench{out: stderr}
	defer func() { err = errors.Join(err, b.close()) }()
	for _, part := range []struct {
		what string
		take func(*bench, context.Context) error
	}{
		{"Render and Compare", (*bench).pure},
		{"starting a control plane, installing the chart", (*bench).start},
		{"changes to the right list", (*bench).latency},
		{"building the binary, making Nodes and CiliumNodeConfigs", (*bench).load},
		{"memory, and a quiet minute", (*bench).quiet},
	} {
		began := time.Now()
		if err := part.take(b, ctx); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return fmt.Errorf("%s: %w", part.what, err)
		}
		fmt.Fprintf(stderr, "bench: %s: done in %.0f s\n", part.what, time.Since(began).Seconds())
	}
	return b.table.Print(stdout)
}

// Names of the installation that is measured.
const (
	release   = "holdfast"
	namespace = "holdfast"
	cilium    = "kube-system"
)

func (b *bench) start(ctx context.Context) (err error) {
	if b.folder, err = os.MkdirTemp("", "holdfast-bench-"); err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	if b.plane, err = controlplane.Start(ctx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := b.plane.NodeConfigCRD(); err != nil {
		return err
	}
	values, err := product.Values(b.plane.Config, "10.96.0.10")
	if err != nil {
		return err
	}
	b.release = &product.Release{Plane: b.plane, Name: release, Namespace: namespace, Values: values, Folder: b.folder}
	chart, err := helm.Chart()
	if err != nil {
		return err
	}
	_, err = helm.Install(ctx, b.plane.Config, chart, helm.ReleaseOptions{Release: release, Namespace: namespace, Values: values, CreateNamespace: true})
	return err
}

func (b *bench) close() error {
	var errs []error
	if b.plane != nil {
		errs = append(errs, b.plane.Stop())
	}
	if b.folder != "" {
		errs = append(errs, os.RemoveAll(b.folder))
	}
	return errors.Join(errs...)
}
