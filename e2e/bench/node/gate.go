package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
)

// gate follows whether a Node is open.
type gate struct {
	watch watch.Interface

	mu    sync.Mutex
	turns []turn
	open  bool
	ended bool
}

// turn is one change of it, and when it was seen.
type turn struct {
	at   time.Time
	open bool
}

// watchGate follows the gate of an open node until stop is called.
func (m *machine) watchGate(ctx context.Context) (*gate, error) {
	w, err := m.bench.cluster.plane.Kube.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, m.name).String()})
	if err != nil {
		return nil, fmt.Errorf("watch Node %s: %w", m.name, err)
	}
	g := &gate{watch: w, open: true}
	go g.follow()
	return g, nil
}

func (g *gate) stop() { g.watch.Stop() }

func (g *gate) follow() {
	for event := range g.watch.ResultChan() {
		node, ok := event.Object.(*corev1.Node)
		if !ok {
			continue
		}
		g.mu.Lock()
		if now := isOpen(node); now != g.open {
			g.open = now
			g.turns = append(g.turns, turn{time.Now(), now})
		}
		g.mu.Unlock()
	}
	g.mu.Lock()
	g.ended = true
	g.mu.Unlock()
}

// settled waits until the gate is open for good after a fight, and returns all turns it took since it is followed.
func (g *gate) settled(ctx context.Context, after time.Time) ([]turn, error) {
	const stays = 5 * time.Second
	for end := time.Now().Add(time.Minute); ; {
		g.mu.Lock()
		turns, open, ended := slices.Clone(g.turns), g.open, g.ended
		g.mu.Unlock()
		switch {
		case ended:
			return nil, errors.New("the watch of the Node ended")
		case open && len(turns) == 0:
			if time.Since(after) > stays {
				return nil, errors.New("the Node was never closed")
			}
		case open && time.Since(turns[len(turns)-1].at) > stays && time.Since(after) > stays:
			return turns, nil
		}
		if time.Now().After(end) {
			return nil, errors.New("the Node is still closed a minute after the end")
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return nil, err
		}
	}
}
