package lab

import (
	"bytes"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
)

// Exec runs a command in a pod's first container and returns its standard output.
func (l *Lab) Exec(ctx context.Context, namespace, pod string, command ...string) (string, error) {
	return l.ExecIn(ctx, namespace, pod, "", command...)
}

// ExecIn runs it in the container of that name.
func (l *Lab) ExecIn(ctx context.Context, namespace, pod, container string, command ...string) (string, error) {
	request := l.Kube.CoreV1().RESTClient().Post().Namespace(namespace).Resource("pods").Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: container, Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(l.Config, "GET", request.URL().String())
	if err != nil {
		return "", fmt.Errorf("exec in pod %s/%s: %w", namespace, pod, err)
	}
	var stdout, stderr bytes.Buffer
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr}); err != nil {
		return "", fmt.Errorf("exec %v in pod %s/%s: %w: %s", command, namespace, pod, err, tail(stderr.String()+stdout.String()))
	}
	return stdout.String(), nil
}
