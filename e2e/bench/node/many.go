package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/e2e/bench/figure"
	"github.com/holdfast-cni/holdfast/watcher"
)

const (
	nodes   = 5000
	others  = 200
	few     = 10
	several = 30
	// perChange is how many requests one change may cost: what is written about it, and the same once more after a conflict.
	perChange = 2
)

// many measures one node of a large cluster: what it hears of others, and what its own changes cost.
func (b *bench) many(ctx context.Context) (err error) {
	kube, err := b.cluster.unlimited()
	if err != nil {
		return err
	}
	if err := fill(ctx, kube); err != nil {
		return err
	}
	b.cluster.proxy.take()
	m, err := b.newMachine(ctx, "many", "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	memory := figure.Follow(m.installer.PID())
	defer memory.Stop()
	if err := pause(ctx, 10*time.Second); err != nil { // until what the start set off is over
		return err
	}
	b.table.Note(fmt.Sprintf("%d Nodes: start of install-cni on one of them until its Node is open", nodes), b.cluster.proxy.take().String())
	if err := each(ctx, others, func(ctx context.Context, i int) error { return annotate(ctx, kube, other(i), "seen") }); err != nil {
		return err
	}
	if err := pause(ctx, 5*time.Second); err != nil { // for whatever it hears late
		return err
	}
	heard := b.cluster.proxy.take()
	b.table.Judge(fmt.Sprintf("%d Nodes: what install-cni hears and sends while %d others change", nodes, others), heard.String(), "no request, no event",
		heard.events == 0 && heard.reads == 0 && heard.written("") == 0)
	for _, change := range []struct {
		what string
		do   func(context.Context, int) error
	}{{"its own label set by hand", m.relabel}, {"plugin.json", m.reconfigure}} {
		if err := m.changes(ctx, change.what, change.do); err != nil {
			return err
		}
	}
	most := memory.Take()
	b.table.Judge(fmt.Sprintf("%d Nodes: RssAnon, the most", nodes), figure.MiB(most), "≤ "+figure.MiB(memoryGoal), most > 0 && most <= memoryGoal)
	return nil
}

// changes measures what some changes cost, and three times as many.
func (m *machine) changes(ctx context.Context, what string, change func(context.Context, int) error) error {
	number := 0
	for _, times := range []int{few, several} {
		for range times {
			number++
			if err := change(ctx, number); err != nil {
				return fmt.Errorf("%s (change %d): %w", what, number, err)
			}
		}
		if err := pause(ctx, 3*time.Second); err != nil { // a closed node says only every two seconds what is so
			return err
		}
		cost := m.bench.cluster.proxy.take()
		each := float64(cost.reads+cost.written("")) / float64(times)
		m.bench.table.Judge(fmt.Sprintf("%d Nodes: requests for %d changes of %s", nodes, times, what), fmt.Sprintf("%.2f a change (%s)", each, cost),
			fmt.Sprintf("≤ %d a change; each heard of", perChange), each <= perChange && cost.events >= times)
	}
	return nil
}

// relabel closes the Node by hand, which install-cni sets right.
func (m *machine) relabel(ctx context.Context, _ int) error {
	api := m.bench.cluster.plane.Kube.CoreV1().Nodes()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:"false"}}}`, watcher.NodeLabel)
	if _, err := api.Patch(ctx, m.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubectl-label"}); err != nil {
		return fmt.Errorf("label Node %s: %w", m.name, err)
	}
	for end := time.Now().Add(20 * time.Second); ; {
		node, err := api.Get(ctx, m.name, metav1.GetOptions{})
		if err == nil && isOpen(node) {
			return nil
		}
		if time.Now().After(end) || pause(ctx, 20*time.Millisecond) != nil {
			return errors.Join(errors.New("the label is not set back"), err, ctx.Err())
		}
	}
}

// reconfigure changes the entry that is to be chained, and waits until containerd has loaded it.
func (m *machine) reconfigure(ctx context.Context, i int) error {
	text := fmt.Sprintf(`{"type":"holdfast-cni","capabilities":{"io.kubernetes.cri.pod-annotations":true},"resolvers":["10.96.1.%d"]}`, i)
	entry, err := chaining.ParseEntry([]byte(text))
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"data": map[string]string{watcher.PluginKey: text}})
	if err != nil {
		return fmt.Errorf("encode a patch: %w", err)
	}
	maps := m.bench.cluster.plane.Kube.CoreV1().ConfigMaps(namespace)
	if _, err := maps.Patch(ctx, watcher.ConfigName(release), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kubectl-edit"}); err != nil {
		return fmt.Errorf("patch plugin.json: %w", err)
	}
	_, _, err = m.proved(ctx, func(list *chaining.List) bool { return chaining.Check(*list, entry).Reason == chaining.Chained })
	return err
}
