package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/configmap"
	"github.com/holdfast-cni/holdfast/watcher"
)

func (s *story) ciliumMaps() v1.ConfigMapInterface { return s.plane.Kube.CoreV1().ConfigMaps(cilium) }
func (s *story) ownMaps() v1.ConfigMapInterface    { return s.plane.Kube.CoreV1().ConfigMaps(namespace) }

// pluginTypes are those of the plugins in a list's ConfigMap, in order.
func pluginTypes(cm *corev1.ConfigMap) ([]string, error) {
	l, err := chaining.Parse([]byte(cm.Data[configmap.DefaultKey]))
	if err != nil {
		return nil, fmt.Errorf("read the list in ConfigMap %s/%s: %w", cm.Namespace, cm.Name, err)
	}
	var all []string
	for _, p := range l.Plugins() {
		all = append(all, p.Type())
	}
	return all, nil
}

// chained waits until the list is Cilium's entry, then exactly plugin.json as it is in Holdfast's own ConfigMap.
func (s *story) chained(ctx context.Context) (cm *corev1.ConfigMap, err error) {
	err = until(ctx, "Cilium's entry, then exactly plugin.json", func(ctx context.Context) (string, error) {
		own, err := s.ownMaps().Get(ctx, watcher.ConfigName(release), metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		entry, err := chaining.ParseEntry([]byte(own.Data[watcher.PluginKey]))
		if err != nil {
			return "", err
		}
		if cm, err = s.ciliumMaps().Get(ctx, list, metav1.GetOptions{}); err != nil {
			return "", err
		}
		have, err := pluginTypes(cm)
		if err != nil {
			return "", err
		}
		if want := []string{"cilium-cni", "holdfast-cni"}; !slices.Equal(have, want) {
			return "plugins " + strings.Join(have, ", "), nil
		}
		l, err := chaining.Parse([]byte(cm.Data[configmap.DefaultKey]))
		if err != nil {
			return "", err
		}
		return string(chaining.Check(l, entry).Reason), nil
	})
	return cm, err
}

// reported waits until the watcher reports findings of exactly these kinds.
func (s *story) reported(ctx context.Context, want ...configmap.ID) (findings []configmap.Finding, err error) {
	slices.Sort(want)
	err = until(ctx, fmt.Sprintf("findings %v", want), func(ctx context.Context) (string, error) {
		cm, err := s.ownMaps().Get(ctx, watcher.StatusName(release), metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		findings = nil
		if err := yaml.Unmarshal([]byte(cm.Data["findings"]), &findings); err != nil {
			return "", fmt.Errorf("read the findings: %w", err)
		}
		var have []configmap.ID
		for _, f := range findings {
			have = append(have, f.ID)
		}
		if slices.Sort(have); !slices.Equal(have, want) {
			return fmt.Sprintf("%v", have), nil
		}
		return "", nil
	})
	return findings, err
}

func (s *story) finding(ctx context.Context, id configmap.ID) (configmap.Finding, error) {
	var found configmap.Finding
	err := until(ctx, "finding "+string(id), func(ctx context.Context) (string, error) {
		cm, err := s.ownMaps().Get(ctx, watcher.StatusName(release), metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		var findings []configmap.Finding
		if err := yaml.Unmarshal([]byte(cm.Data["findings"]), &findings); err != nil {
			return "", fmt.Errorf("read the findings: %w", err)
		}
		i := slices.IndexFunc(findings, func(f configmap.Finding) bool { return f.ID == id })
		if i < 0 {
			return fmt.Sprintf("%d others", len(findings)), nil
		}
		found = findings[i]
		return "", nil
	})
	return found, err
}

// tellFinding shows a finding as it is reported. Where a later step runs the fix's command, that step shows it.
func (s *story) tellFinding(f configmap.Finding, followed bool) {
	s.say("%s %s: %s: %s", f.Severity, f.ID, f.Object, f.Message)
	if followed {
		f.Fix.Command = ""
	}
	s.say("fix: %s", f.Fix)
}

// event waits for an Event about the list with the reason and the words.
func (s *story) event(ctx context.Context, reason, words string) (note string, err error) {
	err = until(ctx, fmt.Sprintf("an Event %s that says %q", reason, words), func(ctx context.Context) (string, error) {
		events, err := s.plane.Kube.EventsV1().Events(cilium).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		for _, e := range events.Items {
			if e.Reason == reason && e.Regarding.Name == list && strings.Contains(e.Note, words) {
				note = e.Note
				return "", nil
			}
		}
		return fmt.Sprintf("%d Events without it", len(events.Items)), nil
	})
	return note, err
}
