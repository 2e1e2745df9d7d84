package main

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// somePod is a pod of three containers to check the contract of.
func somePod() *corev1.Pod {
	c := func(name string) corev1.Container {
		return corev1.Container{Name: name, SecurityContext: &corev1.SecurityContext{RunAsUser: ptr.To[int64](1000)}}
	}
	return &corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{c("sidecar")}, Containers: []corev1.Container{c("a"), c("b")}}}
}
