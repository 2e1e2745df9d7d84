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

// Leave asks the watcher and every node to let go, and waits until they have: no node carries the label of an installed
// plugin, and the ConfigMap holds Cilium's part alone. It says on out what it waits for. Leaving twice is leaving once.
func Leave(ctx context.Context, config *rest.Config, o Options, out io.Writer) error {
	l, err := newLeaving(config, &o, out)
	if err != nil {
		return err
	}
	list := fmt.Sprintf("ConfigMap %s/%s", o.CiliumNamespace, o.ConfigMap)
	became := ""
	err = l.until(ctx, func(ctx context.Context) (waiting string, err error) {
		if waiting, err = l.nodes(ctx); waiting == "" && err == nil {
			waiting, became, err = l.watcher(ctx, list)
		}
		return waiting, err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s %s.\n", list, became)
	fmt.Fprintf(out, "Unset cni.configMap before you delete it: helm upgrade cilium cilium/cilium --version VERSION --namespace %s --reuse-values --set cni.configMap=\n", o.CiliumNamespace)
	return nil
}

// LeaveNodes is Leave where the network is not Cilium's: there is no watcher, and nodes alone let go.
func LeaveNodes(ctx context.Context, config *rest.Config, o Options, out io.Writer) error {
	l, err := newLeaving(config, &o, out)
	if err != nil {
		return err
	}
	return l.until(ctx, l.nodes)
}

// leaving is what Leave and LeaveNodes share.
type leaving struct {
	kube kubernetes.Interface
	o    *Options
	out  io.Writer
}

func newLeaving(config *rest.Config, o *Options, out io.Writer) (*leaving, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return &leaving{kube: kube, o: o, out: out}, nil
}

// until asks everyone to leave, then looks once a second until nothing is waited for.
func (l *leaving) until(ctx context.Context, look func(context.Context) (waiting string, err error)) error {
	if err := l.ask(ctx); err != nil {
		return err
	}
	said := ""
	for {
		waiting, err := look(ctx)
		if err == nil && waiting == "" {
			fmt.Fprintln(l.out, "Holdfast has left the cluster.")
			return nil
		}
		if err != nil {
			waiting = err.Error()
		}
		// A look that the end of the time cut short knows less than the one before it.
		if waiting != said && (ctx.Err() == nil || said == "") {
			fmt.Fprintln(l.out, "waiting:", waiting)
			said = waiting
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %s", ErrStay, said)
		case <-time.After(time.Second):
		}
	}
}

func (l *leaving) ask(ctx context.Context) error {
	name := watcher.ConfigName(l.o.Release)
	patch := fmt.Appendf(nil, `{"data":{%q:null,%q:"true"}}`, watcher.StateKey, watcher.LeavingKey)
	_, err := l.kube.CoreV1().ConfigMaps(l.o.Namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: watcher.FieldManager})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("ConfigMap %s/%s is not there: --namespace and --release must be those of the installed chart", l.o.Namespace, name)
	}
	if err != nil {
		return fmt.Errorf("patch ConfigMap %s/%s: %w", l.o.Namespace, name, err)
	}
	return nil
}

// nodes says which nodes still have to let go.
func (l *leaving) nodes(ctx context.Context) (waiting string, err error) {
	nodes, err := l.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: watcher.InstalledLabel})
	if err != nil {
		return "", fmt.Errorf("list nodes: %w", err)
	}
	if len(nodes.Items) == 0 {
		return "", nil
	}
	return "nodes that install-cni has not taken out: " + strings.Join(names(nodes.Items), ", "), nil
}

// watcher says whether the watcher still has to let go of the list, and if not, what has become of that.
func (l *leaving) watcher(ctx context.Context, list string) (waiting, became string, err error) {
	name := watcher.StatusName(l.o.Release)
	status, err := l.kube.CoreV1().ConfigMaps(l.o.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return "", "", fmt.Errorf("get ConfigMap %s/%s: %w", l.o.Namespace, name, err)
	}
	var conditions []metav1.Condition
	if err := yaml.Unmarshal([]byte(status.Data[conditionsKey]), &conditions); err != nil {
		return "", "", fmt.Errorf("read ConfigMap %s/%s: %w", l.o.Namespace, name, err)
	}
	if !meta.IsStatusConditionTrue(conditions, Left) {
		return fmt.Sprintf("the watcher (kubectl --namespace %s get pods), which writes Cilium's entry alone to %s", l.o.Namespace, list), "", nil
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
