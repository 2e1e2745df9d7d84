package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-cni/holdfast/configmap"
	"github.com/holdfast-cni/holdfast/helm"
	"github.com/holdfast-cni/holdfast/watcher"
)

func (s *story) leave(ctx context.Context) error {
	args, err := s.release.Leave(ctx)
	if err != nil {
		return err
	}
	s.say("helm uninstall runs this first, as a Job with a ServiceAccount of its own:")
	s.command("holdfast %s", strings.ReplaceAll(strings.Join(args, " "), s.folder, "$TMP"))
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, s.binary, args...)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run holdfast leave: %w: %s", err, said.Bytes())
	}
	for line := range strings.Lines(said.String()) {
		s.say("%s", line)
	}
	return s.ciliumAlone(ctx)
}

// ciliumAlone shows the list and expects Cilium's entry in it, and nothing else.
func (s *story) ciliumAlone(ctx context.Context) error {
	s.command("kubectl --namespace %s get configmap %s --output jsonpath='{.data.%s}'", cilium, list, configmap.DefaultKey)
	cm, err := s.ciliumMaps().Get(ctx, list, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get ConfigMap %s/%s: %w", cilium, list, err)
	}
	s.show(cm.Data[configmap.DefaultKey])
	have, err := pluginTypes(cm)
	if err != nil {
		return err
	}
	if want := []string{"cilium-cni"}; !slices.Equal(have, want) {
		return fmt.Errorf("expected plugins %v; seen: %v", want, have)
	}
	return nil
}

func (s *story) uninstall(ctx context.Context) error {
	s.command("helm uninstall %s --namespace %s", release, namespace)
	// The hook's Job was the step before this one.
	o := helm.ReleaseOptions{Release: release, Namespace: namespace, DisableHooks: true}
	if err := helm.Uninstall(ctx, s.plane.Config, o); err != nil {
		return err
	}
	_, err := s.ownMaps().Get(ctx, watcher.ConfigName(release), metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("expected ConfigMap %s/%s to be gone; seen: %v", namespace, watcher.ConfigName(release), err)
	}
	process := s.watcher
	s.watcher = nil
	if err := process.Stop(10 * time.Second); err != nil {
		return err
	}
	s.say("the release is gone, and the watcher ended on SIGTERM with exit code 0.")
	return s.ciliumAlone(ctx)
}
