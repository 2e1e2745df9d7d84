package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-cni/holdfast/configmap"
	"github.com/holdfast-cni/holdfast/helm"
	"github.com/holdfast-cni/holdfast/watcher"
)

func (s *story) change(ctx context.Context) error {
	const resolver = "169.254.20.10"
	s.command("helm upgrade %s ./helm/holdfast --namespace %s --reuse-values --set 'plugin.resolvers={%s}'", release, namespace, resolver)
	s.release.Values["plugin"] = map[string]any{"resolvers": []any{resolver}}
	chart, err := helm.Chart()
	if err != nil {
		return err
	}
	if _, err := helm.Upgrade(ctx, s.plane.Config, chart, helm.ReleaseOptions{Release: release, Namespace: namespace, Values: s.release.Values}); err != nil {
		return err
	}
	cm, err := s.chained(ctx)
	if err != nil {
		return err
	}
	text := cm.Data[configmap.DefaultKey]
	if !strings.Contains(text, resolver) || strings.Contains(text, "10.96.0.10") {
		return fmt.Errorf("expected resolver %s alone in the list; seen: %s", resolver, text)
	}
	s.say("the list follows, and nothing was restarted:")
	s.show(text)
	return nil
}

func (s *story) breakPlugin(ctx context.Context) error {
	before, err := s.ciliumMaps().Get(ctx, list, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get ConfigMap %s/%s: %w", cilium, list, err)
	}
	own, err := s.ownMaps().Get(ctx, watcher.ConfigName(release), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get ConfigMap %s/%s: %w", namespace, watcher.ConfigName(release), err)
	}
	good := own.Data[watcher.PluginKey]
	bad := strings.Replace(good, "169.254.20.10", "169.254.20", 1)
	s.command("kubectl --namespace %s edit configmap %s   # a resolver loses its last number", namespace, watcher.ConfigName(release))
	if err := s.setPlugin(ctx, bad); err != nil {
		return err
	}
	findings, err := s.reported(ctx, configmap.PluginInvalid)
	if err != nil {
		return err
	}
	s.tellFinding(findings[0], false)
	if f := findings[0]; !strings.Contains(f.Message, `resolvers[0] "169.254.20"`) || f.Fix == (configmap.Fix{}) {
		return fmt.Errorf("expected a finding that names resolvers[0], its value and a fix; seen: %s", f)
	}
	if err := s.untouched(ctx, before); err != nil {
		return err
	}
	s.command("kubectl --namespace %s edit configmap %s   # as it was", namespace, watcher.ConfigName(release))
	if err := s.setPlugin(ctx, good); err != nil {
		return err
	}
	if _, err := s.reported(ctx); err != nil {
		return err
	}
	s.say("the finding is gone.")
	return s.untouched(ctx, before)
}

func (s *story) untouched(ctx context.Context, before *corev1.ConfigMap) error {
	now, err := s.ciliumMaps().Get(ctx, list, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get ConfigMap %s/%s: %w", cilium, list, err)
	}
	if now.ResourceVersion != before.ResourceVersion {
		return fmt.Errorf("expected ConfigMap %s/%s to stay at version %s; seen: %s: %s", cilium, list, before.ResourceVersion,
			now.ResourceVersion, now.Data[configmap.DefaultKey])
	}
	s.say("ConfigMap %s/%s was not written: still resource version %s.", cilium, list, now.ResourceVersion)
	return nil
}

// setPlugin writes plugin.json as kubectl edit does.
func (s *story) setPlugin(ctx context.Context, text string) error {
	patch, err := json.Marshal(map[string]any{"data": map[string]string{watcher.PluginKey: text}})
	if err != nil {
		return fmt.Errorf("encode the patch: %w", err)
	}
	_, err = s.ownMaps().Patch(ctx, watcher.ConfigName(release), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kubectl-edit"})
	if err != nil {
		return fmt.Errorf("patch ConfigMap %s/%s: %w", namespace, watcher.ConfigName(release), err)
	}
	return nil
}
