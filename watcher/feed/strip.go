package feed

import (
	ciliumv2 "github.com/cilium/cilium/pkg/k8s/apis/cilium.io/v2"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The functions here keep what is looked at: memory stays small, and a heartbeat is no event.

func stripNodeConfig(obj any) (any, error) {
	config, ok := obj.(*ciliumv2.CiliumNodeConfig)
	if !ok {
		return obj, nil
	}
	return &ciliumv2.CiliumNodeConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: config.Namespace, Name: config.Name}, Spec: config.Spec,
	}, nil
}

// StripStatus leaves what somebody wants of a DaemonSet or Deployment.
func StripStatus(obj any) (any, error) {
	switch o := obj.(type) {
	case *appsv1.DaemonSet:
		return &appsv1.DaemonSet{ObjectMeta: bare(o.ObjectMeta), Spec: o.Spec}, nil
	case *appsv1.Deployment:
		return &appsv1.Deployment{ObjectMeta: bare(o.ObjectMeta), Spec: o.Spec}, nil
	}
	return obj, nil
}

func bare(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, Labels: m.Labels}
}
