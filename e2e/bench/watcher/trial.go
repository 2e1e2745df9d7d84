package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	v1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/configmap"
	"github.com/holdfast-cni/holdfast/watcher"
)

const reference = "bench-reference"

// trial changes things and sees what becomes of them.
type trial struct {
	own, cilium       v1.ConfigMapInterface
	lists, references <-chan seen
	stops             []func()
	text              string // of the list that is right now
}

// seen is a ConfigMap and when a watch saw it; nil where it was deleted.
type seen struct {
	at time.Time
	cm *corev1.ConfigMap
}

func newTrial(ctx context.Context, kube kubernetes.Interface) (*trial, error) {
	t := &trial{own: kube.CoreV1().ConfigMaps(namespace), cilium: kube.CoreV1().ConfigMaps(cilium)}
	_, err := t.cilium.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: reference}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("make ConfigMap %s/%s: %w", cilium, reference, err)
	}
	if t.lists, err = t.follow(ctx, configmap.DefaultConfigMap); err != nil {
		return nil, err
	}
	if t.references, err = t.follow(ctx, reference); err != nil {
		return nil, err
	}
	_, err = t.plugin(ctx, changes) // one round before time counts
	return t, err
}

func (t *trial) stop() {
	for _, stop := range t.stops {
		stop()
	}
}

// follow watches one ConfigMap in Cilium's namespace.
func (t *trial) follow(ctx context.Context, name string) (<-chan seen, error) {
	w, err := t.cilium.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()})
	if err != nil {
		return nil, fmt.Errorf("watch ConfigMap %s/%s: %w", cilium, name, err)
	}
	t.stops = append(t.stops, w.Stop)
	all := make(chan seen, 16)
	go func() {
		defer close(all)
		for event := range w.ResultChan() {
			cm, ok := event.Object.(*corev1.ConfigMap)
			if s := (seen{time.Now(), cm}); ok && event.Type != watch.Deleted {
				all <- s
			}
		}
	}()
	return all, nil
}

// await returns how long after the beginning the first right one was seen.
func await(ctx context.Context, from <-chan seen, began time.Time, right func(*corev1.ConfigMap) bool) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return 0, errors.New("what is right was not seen within 10 s")
		case s, open := <-from:
			if !open {
				return 0, errors.New("the watch ended")
			}
			if right(s.cm) {
				return s.at.Sub(began), nil
			}
		}
	}
}

func merge(value map[string]string) []byte {
	data, _ := json.Marshal(map[string]any{"data": value}) // strings can be encoded
	return data
}

func (t *trial) plain(ctx context.Context, i int) (time.Duration, error) {
	mark := fmt.Sprint(i)
	began := time.Now()
	_, err := t.cilium.Patch(ctx, reference, types.MergePatchType, merge(map[string]string{"mark": mark}), metav1.PatchOptions{FieldManager: "bench"})
	if err != nil {
		return 0, fmt.Errorf("patch ConfigMap %s: %w", reference, err)
	}
	return await(ctx, t.references, began, func(cm *corev1.ConfigMap) bool { return cm.Data["mark"] == mark })
}

func (t *trial) plugin(ctx context.Context, i int) (time.Duration, error) {
	text := fmt.Sprintf(`{"type":"holdfast-cni","capabilities":{"io.kubernetes.cri.pod-annotations":true},"resolvers":["10.96.%d.%d"]}`, 1+i/250, 1+i%250)
	entry, err := chaining.ParseEntry([]byte(text))
	if err != nil {
		return 0, err
	}
	began := time.Now()
	_, err = t.own.Patch(ctx, watcher.ConfigName(release), types.MergePatchType, merge(map[string]string{watcher.PluginKey: text}), metav1.PatchOptions{FieldManager: "kubectl-edit"})
	if err != nil {
		return 0, fmt.Errorf("patch plugin.json: %w", err)
	}
	return await(ctx, t.lists, began, func(cm *corev1.ConfigMap) bool {
		t.text = cm.Data[configmap.DefaultKey]
		list, err := chaining.Parse([]byte(t.text))
		return err == nil && strings.HasPrefix(list.Plugins()[0].Type(), "cilium") && chaining.Check(list, entry).Reason == chaining.Chained
	})
}

// edit is by another manager each time, so that repair never backs off.
func (t *trial) edit(ctx context.Context, i int) (time.Duration, error) {
	began := time.Now()
	edited, err := t.cilium.Patch(ctx, configmap.DefaultConfigMap, types.MergePatchType, merge(map[string]string{configmap.DefaultKey: "{}"}),
		metav1.PatchOptions{FieldManager: fmt.Sprintf("editor-%d", i)})
	if err != nil {
		return 0, fmt.Errorf("edit the list: %w", err)
	}
	return await(ctx, t.lists, began, func(cm *corev1.ConfigMap) bool {
		return cm.ResourceVersion != edited.ResourceVersion && cm.Data[configmap.DefaultKey] == t.text
	})
}

func (t *trial) remove(ctx context.Context, _ int) (time.Duration, error) {
	before, err := t.cilium.Get(ctx, configmap.DefaultConfigMap, metav1.GetOptions{})
	if err != nil {
		return 0, fmt.Errorf("get the list: %w", err)
	}
	began := time.Now()
	if err := t.cilium.Delete(ctx, configmap.DefaultConfigMap, metav1.DeleteOptions{}); err != nil {
		return 0, fmt.Errorf("delete the list: %w", err)
	}
	return await(ctx, t.lists, began, func(cm *corev1.ConfigMap) bool {
		return cm.UID != before.UID && cm.Data[configmap.DefaultKey] == t.text
	})
}
