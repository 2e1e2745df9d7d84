package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/holdfast-cni/holdfast/e2e/controlplane"
	"github.com/holdfast-cni/holdfast/e2e/demo/product"
	"github.com/holdfast-cni/holdfast/helm"
)

func (s *story) startPlane(ctx context.Context) (err error) {
	done := s.busy("finding, or building from source, kube-apiserver and etcd")
	s.plane, err = controlplane.Start(ctx)
	done()
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	version, err := s.plane.Kube.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("ask the API server for its version: %w", err)
	}
	if err := s.plane.NodeConfigCRD(); err != nil {
		return err
	}
	s.say("kube-apiserver %s listens on %s; Cilium's CiliumNodeConfig is defined there.", version.GitVersion, s.plane.Config.Host)
	return nil
}

func (s *story) build(ctx context.Context) (err error) {
	if s.folder, err = os.MkdirTemp("", "holdfast-demo-"); err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	s.command("go build ./cmd/holdfast")
	done := s.busy("compiling ./cmd/holdfast; the first time this takes minutes")
	s.binary, err = product.Build(ctx, s.folder)
	done()
	return err
}

func (s *story) install(ctx context.Context) error {
	values, err := product.Values(s.plane.Config, "10.96.0.10")
	if err != nil {
		return err
	}
	s.release = &product.Release{Plane: s.plane, Name: release, Namespace: namespace, Values: values, Folder: s.folder}
	chart, err := helm.Chart()
	if err != nil {
		return err
	}
	o := helm.ReleaseOptions{Release: release, Namespace: namespace, CreateNamespace: true}
	// N7: the one value without a usable default.
	o.Values = map[string]any{"kubernetesApi": values["kubernetesApi"]}
	s.command("helm install %s ./helm/holdfast --namespace %s --create-namespace", release, namespace)
	if _, err = helm.Install(ctx, s.plane.Config, chart, o); err == nil || !strings.Contains(err.Error(), "plugin.resolvers") {
		return fmt.Errorf("expected a refusal that names plugin.resolvers; seen: %v", err)
	}
	_, sentence, _ := strings.Cut(err.Error(), "plugin.resolvers")
	s.say("refused: plugin.resolvers%s", sentence)

	address := values["kubernetesApi"].(map[string]any)
	s.command("helm install %s ./helm/holdfast --namespace %s --create-namespace --set 'plugin.resolvers={10.96.0.10}' --set kubernetesApi.host=%v,kubernetesApi.port=%v",
		release, namespace, address["host"], address["port"])
	if chart, err = helm.Chart(); err != nil {
		return err
	}
	o.Values = values
	notes, err := helm.Install(ctx, s.plane.Config, chart, o)
	if err != nil {
		return err
	}
	_, after, begun := strings.Cut(notes, "BEFORE YOU POINT CILIUM AT HOLDFAST")
	before, _, ended := strings.Cut(after, "\n3. ")
	if !begun || !ended {
		return fmt.Errorf("expected notes that say what to do before Cilium; seen: %s", notes)
	}
	s.say("installed; of its notes:")
	s.show(strings.TrimSpace(before))
	return nil
}

func (s *story) watch(ctx context.Context) error {
	args, err := s.release.Watcher(ctx)
	if err != nil {
		return err
	}
	s.command("holdfast %s", strings.ReplaceAll(strings.Join(args, " "), s.folder, "$TMP"))
	if s.watcher, err = product.Start(s.binary, args...); err != nil {
		return err
	}
	port := s.release.Values["watcher"].(map[string]any)["healthPort"]
	ready := fmt.Sprintf("http://127.0.0.1:%v/readyz", port)
	err = until(ctx, "the watcher to be ready", func(ctx context.Context) (string, error) {
		if s.watcher.Exited() {
			return "", fmt.Errorf("it ended: %s", s.watcher.Log())
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, ready, nil)
		if err != nil {
			return "", err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return answer.Status, nil
		}
		return "", nil
	})
	if err != nil {
		return err
	}
	s.say("process %d is ready. In a cluster the chart's Deployment runs it; here there is no kubelet.", s.watcher.PID())
	return nil
}
