package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/holdfast-cni/holdfast/e2e/controlplane"
	"github.com/holdfast-cni/holdfast/e2e/demo/product"
)

// Names in the story.
const (
	release   = "holdfast"
	namespace = "holdfast"
	cilium    = "kube-system"
	list      = "holdfast-cni-config"
)

type step struct {
	title string
	limit time.Duration
	take  func(*story, context.Context) error
}

const usual = time.Minute

var steps = []step{
	{"A real control plane: etcd and kube-apiserver, nothing else", time.Hour, (*story).startPlane},
	{"Holdfast's own binary", time.Hour, (*story).build},
	{"Install Holdfast, before Cilium", usual, (*story).install},
	{"Start the watcher, with the chart's arguments and the rights of its ServiceAccount", usual, (*story).watch},
	{"C1: the ConfigMap for Cilium is there before Cilium is", usual, (*story).generated},
	{"Install Cilium, which is to replace kube-proxy and to read that ConfigMap", usual, (*story).installCilium},
	{"C4, C8: two settings of Cilium stand against a chained plugin, and are found", usual, (*story).findings},
	{"C4: set what the finding's fix names, and nothing else", usual, (*story).fixSocketLB},
	{"C8: the same with the other finding", usual, (*story).fixOperator},
	{"C1: somebody edits the list; it is repaired", usual, (*story).edit},
	{"C1: somebody deletes it; it is back", usual, (*story).remove},
	{"Give the plugin another resolver; it reaches the list", usual, (*story).change},
	{"Break plugin.json; the last good list stays, and the finding names key and fix", usual, (*story).breakPlugin},
	{"C9: leave; Cilium keeps its own entry", usual, (*story).leave},
	{"Uninstall; the ConfigMap that Cilium mounts stays", usual, (*story).uninstall},
}

// story is what the steps have made so far.
type story struct {
	*teller
	folder  string
	plane   *controlplane.ControlPlane
	binary  string
	release *product.Release
	watcher *product.Process
	// ciliumValues are those of Cilium's chart, as helm upgrade --reuse-values would keep them.
	ciliumValues map[string]any
}

// take runs one step within its time, unless the watcher died.
func (s *story) take(ctx context.Context, step step) error {
	ctx, cancel := context.WithTimeout(ctx, step.limit)
	defer cancel()
	if err := step.take(s, ctx); err != nil {
		return err
	}
	if s.watcher != nil && s.watcher.Exited() {
		return fmt.Errorf("the watcher ended by itself; it said last: %s", s.watcher.Log())
	}
	return nil
}

// close ends every process and removes every file. Closing twice is closing once.
func (s *story) close() error {
	var errs []error
	if s.watcher != nil {
		var exit *exec.ExitError // how it ends matters to the step that ends it, not here
		if err := s.watcher.Stop(10 * time.Second); !errors.As(err, &exit) {
			errs = append(errs, err)
		}
		s.watcher = nil
	}
	if s.plane != nil {
		errs = append(errs, s.plane.Stop())
		s.plane = nil
	}
	if s.folder != "" {
		errs = append(errs, os.RemoveAll(s.folder))
		s.folder = ""
	}
	return errors.Join(errs...)
}

// until asks again and again until nothing is missing. The check says what it has seen instead.
func until(ctx context.Context, expected string, check func(context.Context) (seen string, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		seen, err := check(ctx)
		if err == nil && seen == "" {
			return nil
		}
		if err != nil {
			seen = err.Error()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("expected %s; seen: %s", expected, seen)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
