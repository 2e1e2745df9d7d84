package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-cni/holdfast/watcher"
)

// ErrStay reports that Holdfast could not leave the cluster in time; its message names what still holds.
var ErrStay = errors.New("not everything was taken out in time")

// Leave asks the watcher and every node to let go, and waits until they have: the ConfigMap holds Cilium's part alone, and
// no node carries the label of an installed plugin. It says on out what it waits for. Leaving twice is leaving once.
func Leave(ctx context.Context, config *rest.Config, o Options, out io.Writer) error {
	if err := o.Validate(); err != nil {
		return err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	name := watcher.ConfigName(o.Release)
	patch := fmt.Appendf(nil, `{"data":{%q:null,%q:"true"}}`, watcher.StateKey, watcher.LeavingKey)
	_, err = kube.CoreV1().ConfigMaps(o.Namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: watcher.FieldManager})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("ConfigMap %s/%s is not there: --namespace and --release must be those of the installed chart", o.Namespace, name)
	}
	if err != nil {
		return fmt.Errorf("patch ConfigMap %s/%s: %w", o.Namespace, name, err)
	}
	said := ""
	for {
		waiting, left, err := remaining(ctx, kube, &o)
		switch {
		case err == nil && waiting == "":
			said = left
			fmt.Fprintln(out, "Holdfast has left the cluster.")
			fmt.Fprintf(out, "ConfigMap %s/%s %s.\n", o.CiliumNamespace, o.ConfigMap, said)
			fmt.Fprintf(out, "Unset cni.configMap before you delete it: helm upgrade cilium cilium/cilium --version VERSION --namespace %s --reuse-values --set cni.configMap=\n", o.CiliumNamespace)
			return nil
		case err != nil:
			waiting = err.Error()
		}
		if waiting != said {
			fmt.Fprintln(out, "waiting:", waiting)
			said = waiting
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %s", ErrStay, said)
		case <-time.After(time.Second):
		}
	}
}

// remaining says what still has to let go, or "" and what has become of the ConfigMap.
func remaining(ctx context.Context, kube kubernetes.Interface, o *Options) (waiting, left string, err error) {
	nodes, err := kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: watcher.InstalledLabel})
	if err != nil {
		return "", "", fmt.Errorf("list nodes: %w", err)
	}
	if len(nodes.Items) > 0 {
		return "nodes that install-cni has not taken out: " + strings.Join(names(nodes.Items), ", "), "", nil
	}
	name := watcher.StatusName(o.Release)
	status, err := kube.CoreV1().ConfigMaps(o.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return "", "", fmt.Errorf("get ConfigMap %s/%s: %w", o.Namespace, name, err)
	}
	var conditions []metav1.Condition
	if err := yaml.Unmarshal([]byte(status.Data[conditionsKey]), &conditions); err != nil {
		return "", "", fmt.Errorf("read ConfigMap %s/%s: %w", o.Namespace, name, err)
	}
	if !meta.IsStatusConditionTrue(conditions, Left) {
		return fmt.Sprintf("the watcher (kubectl --namespace %s get pods), which writes Cilium's entry alone to ConfigMap %s/%s",
			o.Namespace, o.CiliumNamespace, o.ConfigMap), "", nil
	}
	return "", meta.FindStatusCondition(conditions, Left).Message, nil
}

func names(nodes []corev1.Node) []string {
	const most = 20
	var list []string
	for i := range nodes {
		if i == most {
			return append(list, fmt.Sprintf("and %d more", len(nodes)-most))
		}
		list = append(list, nodes[i].Name)
	}
	return list
}
