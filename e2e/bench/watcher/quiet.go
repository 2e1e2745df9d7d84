package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-cni/holdfast/configmap"
	"github.com/holdfast-cni/holdfast/e2e/bench/figure"
	"github.com/holdfast-cni/holdfast/e2e/demo/product"
	"github.com/holdfast-cni/holdfast/watcher"
)

const memoryGoal = 60 << 20

// quiet runs the real binary in the large cluster: what it holds in memory once it has reported, and what it writes when
// nothing happens.
func (b *bench) quiet(ctx context.Context) (err error) {
	args, err := b.release.Watcher(ctx)
	if err != nil {
		return err
	}
	process, err := product.Start(b.binary(), args...)
	if err != nil {
		return err
	}
	defer func() {
		if stopped := process.Stop(15 * time.Second); err == nil {
			err = stopped
		}
	}()
	began := time.Now()
	memory := figure.Follow(process.PID())
	defer memory.Stop()
	if err := b.reported(ctx, process); err != nil {
		return err
	}
	b.table.Note(fmt.Sprintf("watcher started until it has reported (%d Nodes, %d CiliumNodeConfigs)", nodes, nodeConfigs),
		fmt.Sprintf("%.1f s", time.Since(began).Seconds()))
	// What the report itself set off (Events are sent from a queue) is no longer quiet.
	if err := pause(ctx, 10*time.Second); err != nil {
		return err
	}
	reporting := memory.Take()
	if err := b.countWrites(ctx); err != nil {
		return err
	}
	settled := memory.Take()
	const mib = 1 << 20
	b.table.Judge("RssAnon of the watcher there, the most in the quiet minute", fmt.Sprintf("%.1f MiB", float64(settled)/mib),
		"< 60 MiB", settled > 0 && settled < memoryGoal)
	b.table.Judge("RssAnon of the watcher, the most from its start on", fmt.Sprintf("%.1f MiB", float64(max(reporting, settled))/mib),
		"< 60 MiB", reporting > 0 && reporting < memoryGoal)
	return nil
}

// reported waits until the watcher has told of every wrong CiliumNodeConfig.
func (b *bench) reported(ctx context.Context, process *product.Process) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if process.Exited() {
			return fmt.Errorf("the watcher ended by itself; it said last: %s", process.Log())
		}
		found := 0
		cm, err := b.plane.Kube.CoreV1().ConfigMaps(namespace).Get(ctx, watcher.StatusName(release), metav1.GetOptions{})
		if err == nil {
			var findings []configmap.Finding
			if err := yaml.Unmarshal([]byte(cm.Data["findings"]), &findings); err != nil {
				return fmt.Errorf("read the findings: %w", err)
			}
			for _, f := range findings {
				if f.ID == configmap.SocketLBInPods && strings.HasPrefix(f.Fix.Value, configmap.KeySocketLBHostOnly) && f.NodeCount == nodes/nodeConfigs {
					found++
				}
			}
		}
		if found == wrong {
			return nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("wait for %d findings of %s, %d are there: %w", wrong, configmap.SocketLBInPods, found, err)
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
