package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-cni/holdfast/configmap"
)

func (s *story) generated(ctx context.Context) error {
	s.command("kubectl --namespace %s get configmap %s --output jsonpath='{.data.%s}'", cilium, list, configmap.DefaultKey)
	cm, err := s.chained(ctx)
	if err != nil {
		return err
	}
	s.show(cm.Data[configmap.DefaultKey])
	f, err := s.finding(ctx, configmap.CiliumMissing)
	if err != nil {
		return err
	}
	s.tellFinding(f, false)
	return nil
}

func (s *story) findings(ctx context.Context) error {
	s.command("kubectl --namespace %s get configmap %s-holdfast-status --output jsonpath='{.data.findings}'", namespace, release)
	findings, err := s.reported(ctx, configmap.SocketLBInPods, configmap.OperatorIntolerant)
	if err != nil {
		return err
	}
	for _, f := range findings {
		s.tellFinding(f, true)
	}
	return nil
}

func (s *story) fixSocketLB(ctx context.Context) error {
	return s.fix(ctx, configmap.SocketLBInPods, configmap.OperatorIntolerant)
}

func (s *story) fixOperator(ctx context.Context) error {
	return s.fix(ctx, configmap.OperatorIntolerant)
}

// fix does what the finding says and expects it gone, with no others than those that are left.
func (s *story) fix(ctx context.Context, id configmap.ID, left ...configmap.ID) error {
	f, err := s.finding(ctx, id)
	if err != nil {
		return err
	}
	if err := s.follow(ctx, f.Fix); err != nil {
		return err
	}
	if _, err := s.reported(ctx, left...); err != nil {
		return err
	}
	s.say("Cilium's chart was rendered and applied again with exactly that; %s is no longer reported; findings left: %d.", id, len(left))
	return nil
}

func (s *story) edit(ctx context.Context) error {
	const patch = `{"data":{"cni-config":"{}"}}`
	s.command("kubectl --namespace %s patch configmap %s --patch '%s'", cilium, list, patch)
	return s.drift(ctx, "kubectl-patch", func() (metav1.Object, error) {
		return s.ciliumMaps().Patch(ctx, list, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubectl-patch"})
	})
}

func (s *story) remove(ctx context.Context) error {
	s.command("kubectl --namespace %s delete configmap %s", cilium, list)
	return s.drift(ctx, "delete", func() (metav1.Object, error) {
		return &corev1.ConfigMap{}, s.ciliumMaps().Delete(ctx, list, metav1.DeleteOptions{})
	})
}

// drift lets somebody else change the list and expects it back within a second, as it was, and an Event that says who it was.
func (s *story) drift(ctx context.Context, who string, act func() (metav1.Object, error)) error {
	before, err := s.chained(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if _, err := act(); err != nil {
		return fmt.Errorf("change ConfigMap %s/%s: %w", cilium, list, err)
	}
	after, err := s.chained(ctx)
	took := time.Since(began)
	if err != nil {
		return err
	}
	if after.Data[configmap.DefaultKey] != before.Data[configmap.DefaultKey] || after.ResourceVersion == before.ResourceVersion {
		return fmt.Errorf("expected the list to be changed and then as it was; seen: %s", after.Data[configmap.DefaultKey])
	}
	if took > time.Second {
		return fmt.Errorf("expected the list back within a second; it took %s", took)
	}
	note, err := s.event(ctx, "ListRepaired", who)
	if err != nil {
		return err
	}
	s.say("the same bytes are back after %d ms (resource version %s, then %s). Event ListRepaired: %s", took.Milliseconds(),
		before.ResourceVersion, after.ResourceVersion, note)
	return nil
}
