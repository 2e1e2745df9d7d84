package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	ciliumv2 "github.com/cilium/cilium/pkg/k8s/apis/cilium.io/v2"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/holdfast-cni/holdfast/configmap"
	"github.com/holdfast-cni/holdfast/e2e/demo/product"
)

const (
	nodes       = 5000
	nodeConfigs = 500
	// wrong of the CiliumNodeConfigs turn socket LB on inside pods; each is a finding.
	wrong = 15
)

// load makes the cluster that the issue names, and Cilium's configuration.
func (b *bench) load(ctx context.Context) error {
	if _, err := product.Build(ctx, b.folder); err != nil {
		return err
	}
	config := rest.CopyConfig(b.plane.Config)
	config.QPS = -1
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range nodes {
		group.Go(func() error {
			_, err := kube.CoreV1().Nodes().Create(ctx, node(i), metav1.CreateOptions{FieldManager: "kubelet"})
			return err
		})
	}
	for i := range nodeConfigs {
		group.Go(func() error { return createNodeConfig(ctx, kube, i) })
	}
	group.Go(func() error {
		_, err := kube.CoreV1().ConfigMaps(cilium).Create(ctx, ciliumConfig(), metav1.CreateOptions{FieldManager: "helm"})
		return err
	})
	if err := group.Wait(); err != nil {
		return fmt.Errorf("fill the cluster: %w", err)
	}
	return nil
}

func (b *bench) binary() string { return filepath.Join(b.folder, "holdfast") }

func createNodeConfig(ctx context.Context, kube kubernetes.Interface, i int) error {
	value := "true"
	if i < wrong {
		value = "false"
	}
	body, err := json.Marshal(ciliumv2.CiliumNodeConfig{
		TypeMeta:   metav1.TypeMeta{APIVersion: ciliumv2.SchemeGroupVersion.String(), Kind: "CiliumNodeConfig"},
		ObjectMeta: metav1.ObjectMeta{Namespace: cilium, Name: fmt.Sprintf("pool-%d", i)},
		Spec: ciliumv2.CiliumNodeConfigSpec{
			NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"node.example.com/pool": fmt.Sprintf("pool-%d", i)}},
			Defaults:     map[string]string{configmap.KeySocketLBHostOnly: value, configmap.KeyDebug: "false", "devices": "eth0,eth1"},
		},
	})
	if err != nil {
		return fmt.Errorf("encode a CiliumNodeConfig: %w", err)
	}
	return kube.CoreV1().RESTClient().Post().AbsPath("/apis/cilium.io/v2/namespaces", cilium, "ciliumnodeconfigs").Body(body).Do(ctx).Error()
}

func ciliumConfig() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: cilium, Name: configmap.DefaultConfigName}, Data: map[string]string{
		configmap.KeyKubeProxyReplacement: "true", configmap.KeySocketLB: "false", configmap.KeySocketLBHostOnly: "true",
		configmap.KeyExclusive: "true", configmap.KeyWriteConf: "/host/etc/cni/net.d/05-cilium.conflist",
		configmap.KeyReadConf: "/tmp/cni-configuration/" + configmap.DefaultKey,
	}}
}

var started = metav1.NewTime(time.Now().Add(-24 * time.Hour))
