package main

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/strvals"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-cni/holdfast/configmap"
	"github.com/holdfast-cni/holdfast/e2e/controlplane"
	"github.com/holdfast-cni/holdfast/e2e/demo/product"
	"github.com/holdfast-cni/holdfast/helm"
)

// applied are the objects of Cilium's chart that decide what a chained plugin meets. No others are needed without a node.
var applied = []string{"ConfigMap/cilium-config", "DaemonSet/cilium", "Deployment/cilium-operator"}

// upgradeCilium renders Cilium's own chart, as its module ships it, and applies those objects as Helm would.
func (s *story) upgradeCilium(ctx context.Context) error {
	module, err := controlplane.CiliumModule()
	if err != nil {
		return err
	}
	chart, err := helm.LoadDir(filepath.Join(module, "install/kubernetes/cilium"))
	if err != nil {
		return err
	}
	manifests, _, err := helm.Render(chart, helm.RenderOptions{Release: "cilium", Namespace: cilium, Values: s.ciliumValues, DisableHooks: true})
	if err != nil {
		return err
	}
	objects, err := product.Objects(manifests)
	if err != nil {
		return err
	}
	left := slices.Clone(applied)
	for _, o := range objects {
		at := slices.Index(left, o.GetKind()+"/"+o.GetName())
		if at < 0 {
			continue
		}
		left = slices.Delete(left, at, at+1)
		if err := product.Apply(ctx, s.plane.Config, managed(o), "helm"); err != nil {
			return err
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("expected Cilium's chart to render %s; it does not", strings.Join(left, ", "))
	}
	return nil
}

// managed marks an object as Helm marks what it installs; findings tell by this which command changes it.
func managed(o *unstructured.Unstructured) *unstructured.Unstructured {
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(labels, map[string]string{"app.kubernetes.io/managed-by": "Helm"})
	maps.Copy(annotations, map[string]string{"meta.helm.sh/release-name": "cilium", "meta.helm.sh/release-namespace": cilium})
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
	return o
}

func (s *story) installCilium(ctx context.Context) error {
	address := s.release.Values["kubernetesApi"].(map[string]any)
	sets := fmt.Sprintf("kubeProxyReplacement=true,k8sServiceHost=%v,k8sServicePort=%v,cni.configMap=%s", address["host"], address["port"], list)
	s.ciliumValues = map[string]any{}
	if err := strvals.ParseInto(sets, s.ciliumValues); err != nil {
		return fmt.Errorf("read --set %s: %w", sets, err)
	}
	s.command("helm install cilium cilium/cilium --namespace %s --set %s", cilium, sets)
	if err := s.upgradeCilium(ctx); err != nil {
		return err
	}
	config, err := s.ciliumMaps().Get(ctx, configmap.DefaultConfigName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get ConfigMap %s/%s: %w", cilium, configmap.DefaultConfigName, err)
	}
	s.say("its chart comes from Cilium's Go module. Of its objects are applied %s. Of cilium-config:", strings.Join(applied, ", "))
	for _, key := range []string{configmap.KeyKubeProxyReplacement, configmap.KeySocketLB, configmap.KeySocketLBHostOnly,
		configmap.KeyReadConf, configmap.KeyWriteConf, configmap.KeyExclusive} {
		value, found := config.Data[key]
		if !found {
			value = "(not set)"
		}
		s.show(fmt.Sprintf("%s: %s", key, value))
	}
	if config.Data[configmap.KeyReadConf] == "" || config.Data[configmap.KeyKubeProxyReplacement] != "true" {
		return fmt.Errorf("expected a cilium-config that replaces kube-proxy and reads the ConfigMap; seen: %v", config.Data)
	}
	return nil
}

// follow runs the command of a finding's fix: it must be one of Helm's, on Cilium's release, and only its values count.
func (s *story) follow(ctx context.Context, fix configmap.Fix) error {
	s.command("%s", fix.Command)
	words, err := product.Words(fix.Command)
	if err != nil {
		return err
	}
	if want := []string{"helm", "upgrade", "cilium", "cilium/cilium"}; len(words) < 5 || !slices.Equal(words[:4], want) {
		return fmt.Errorf("expected a fix that starts with %q; seen: %s", strings.Join(want, " "), fix.Command)
	}
	for _, needed := range []string{"--reuse-values", "--version"} {
		if !slices.Contains(words, needed) {
			return fmt.Errorf("expected a fix with %s, or Helm would change more than it says; seen: %s", needed, fix.Command)
		}
	}
	set := 0
	for i, word := range words[:len(words)-1] {
		switch word {
		case "--set":
			err = strvals.ParseInto(words[i+1], s.ciliumValues)
		case "--set-json":
			err = strvals.ParseJSON(words[i+1], s.ciliumValues)
		default:
			continue
		}
		if set++; err != nil {
			return fmt.Errorf("read %s %s: %w", word, words[i+1], err)
		}
	}
	if set == 0 {
		return fmt.Errorf("expected a fix that sets a value; seen: %s", fix.Command)
	}
	return s.upgradeCilium(ctx)
}
