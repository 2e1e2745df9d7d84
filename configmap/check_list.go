package configmap

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// writing checks whether, when and how the agent writes the node's list.
func (k *checker) writing(g *Group) {
	s := g.Settings
	write, exclusive, custom := s.Get(KeyWriteConf), s.Get(KeyExclusive), s.Get(KeyCustomConf)
	if custom.Text == "true" {
		k.addFor(g, CustomConf, Warning, custom, "cni.customConf is true: Cilium's chart then sets neither cni-exclusive nor "+
			"cni-log-file, and without cni.configMap the agent writes no list at all", k.fix.setting(KeyCustomConf, "false", custom))
	}
	if write.Text == "" {
		fix := k.fix.values("cni.install=true", "cni.customConf=false")
		k.addFor(g, WriteConfEmpty, Error, write, KeyWriteConf+" is empty: the agent manages no CNI configuration, "+
			"so whatever list lies on a node stays there", fix)
		return
	}
	if !exclusive.On() {
		fix := k.fix.setting(KeyExclusive, "true", exclusive)
		if custom.Text == "true" && !exclusive.Given {
			fix = k.fix.values("cni.customConf=false", "cni.exclusive=true")
		}
		k.addFor(g, ExclusiveFalse, Warning, exclusive, KeyExclusive+" is not true: the agent does not watch its CNI directory, "+
			"so a changed list reaches a node only when its agent restarts, and another vendor's list may shadow Cilium's", fix)
	}
	if v := s.Get(KeyUninstall); v.Text == "true" {
		k.addFor(g, UninstallOnStop, Warning, v, "cni.uninstall is true: each time an agent stops it removes the node's list, "+
			"and the node is closed until the agent is back", k.fix.setting(KeyUninstall, "false", v))
	}
}

// reading checks whether the agent reads our ConfigMap.
func (k *checker) reading(g *Group) {
	read := g.Settings.Get(KeyReadConf)
	fix := k.fix.values("cni.configMap="+k.expect.ConfigMap, "cni.customConf=false")
	if read.Text == "" {
		k.addFor(g, ConfigMapNotReferenced, Error, read, fmt.Sprintf("Cilium does not read ConfigMap %s: %s is not set",
			k.expect.ConfigMap, KeyReadConf), fix)
		return
	}
	key := path.Base(read.Text)
	if faults := validation.IsConfigMapKey(key); len(faults) > 0 || !path.IsAbs(read.Text) {
		k.addFor(g, ConfigMapKeyDiffers, Error, read, fmt.Sprintf("%s is %s, whose last element can be no key of a ConfigMap, "+
			"so the agent finds no list", KeyReadConf, shorten(read.Text)), k.fix.values("cni.configMapKey="+DefaultKey))
		return
	}
	if k.cilium.DaemonSet == nil {
		return
	}
	volume, found := mountedAt(&k.cilium.DaemonSet.Spec.Template.Spec, path.Dir(read.Text))
	switch {
	case !found:
		k.addFor(g, ConfigMapNotReferenced, Error, read, fmt.Sprintf("Cilium does not read ConfigMap %s: %s is %s, where no "+
			"ConfigMap is mounted", k.expect.ConfigMap, KeyReadConf, shorten(read.Text)), fix)
	case volume.Name != k.expect.ConfigMap:
		k.addFor(g, ConfigMapNotReferenced, Error, read, fmt.Sprintf("Cilium reads ConfigMap %s, not %s",
			shorten(volume.Name), k.expect.ConfigMap), fix)
	case len(volume.Items) > 0 && !hasItem(volume, key):
		k.addFor(g, ConfigMapKeyDiffers, Error, read, fmt.Sprintf("Cilium's volume does not mount key %s, which %s names",
			shorten(key), KeyReadConf), k.fix.values("cni.configMapKey="+volume.Items[0].Path))
	}
}

// mountedAt finds the ConfigMap that the agent's container mounts at the directory.
func mountedAt(pod *corev1.PodSpec, dir string) (*corev1.ConfigMapVolumeSource, bool) {
	for _, c := range pod.Containers {
		if c.Name != "cilium-agent" {
			continue
		}
		for _, mount := range c.VolumeMounts {
			if path.Clean(mount.MountPath) != dir || mount.SubPath != "" {
				continue
			}
			for i := range pod.Volumes {
				if pod.Volumes[i].Name == mount.Name && pod.Volumes[i].ConfigMap != nil {
					return pod.Volumes[i].ConfigMap, true
				}
			}
		}
	}
	return nil, false
}

func hasItem(volume *corev1.ConfigMapVolumeSource, key string) bool {
	for _, item := range volume.Items {
		if item.Path == key {
			return true
		}
	}
	return false
}

// sameList reports nodes that the one ConfigMap cannot serve, because their list would have to be another.
func (k *checker) sameList(g, cluster *Group) {
	if have, want := g.Settings.ListKey(), cluster.Settings.ListKey(); have != want && g.Settings.Get(KeyReadConf).Text != "" {
		v := g.Settings.Get(KeyReadConf)
		k.addFor(g, ConfigMapKeyDiffers, Error, v, fmt.Sprintf("%s names key %s here and %s elsewhere, and the ConfigMap holds one",
			KeyReadConf, shorten(have), shorten(want)), k.fix.setting(KeyReadConf, cluster.Settings.Get(KeyReadConf).Text, v))
	}
	if have, want := g.Settings.ChainingMode(), cluster.Settings.ChainingMode(); have != want {
		v := g.Settings.Get(KeyChainingMode)
		k.addFor(g, ChainingModeDiffers, Error, v, fmt.Sprintf("the chaining mode is %s here and %s elsewhere, and the "+
			"ConfigMap's list has one shape", shorten(have), shorten(want)), k.fix.setting(KeyChainingMode, want, v))
	}
}

// namespaces reports a ConfigMap of our name where Cilium cannot mount it.
func (k *checker) namespaces() {
	for _, namespace := range k.expect.Strays {
		k.add(ConfigMapNamespaceDiffers, Warning, fmt.Sprintf("ConfigMap %s/%s", namespace, k.expect.ConfigMap),
			fmt.Sprintf("lies outside Cilium's namespace %s, so Cilium cannot read it", k.cilium.Namespace),
			Fix{Value: "cilium.namespace=" + namespace + " (Holdfast's chart), if Cilium runs there",
				Command: fmt.Sprintf("otherwise kubectl --namespace %s delete configmap %s", namespace, k.expect.ConfigMap)})
	}
}

// installation checks what holds for the whole cluster, and reports whether there are settings to check.
func (k *checker) installation() bool {
	k.namespaces()
	present := true
	for i, s := range k.sources.Order {
		if s.Kind != SourceConfigMap || k.cilium.Config(s.Namespace, s.Name) != nil {
			continue
		}
		if i == 0 {
			present = k.cilium.DaemonSet != nil
			k.add(CiliumMissing, Info, s.String(), "is not there: Cilium is not installed yet, or runs in another namespace",
				Fix{Value: "cilium.namespace (Holdfast's chart), if Cilium runs elsewhere",
					Command: "kubectl get daemonsets --all-namespaces --selector " + AgentLabel + "=" + AgentLabelValue})
			continue
		}
		k.add(SourceInvalid, Info, s.String(), "is named by daemon.configSources but is not there, so its settings do not count",
			Fix{Command: fmt.Sprintf("kubectl --namespace %s get configmap %s", s.Namespace, s.Name)})
	}
	return present
}

// nodeConfigs reports CiliumNodeConfigs that look as if they counted.
func (k *checker) nodeConfigs() {
	for _, o := range k.cilium.overrides() {
		object := Source{Kind: SourceNodeConfig, Namespace: o.config.Namespace, Name: o.config.Name}.String()
		if o.config.Spec.NodeSelector != nil && o.selector == nil {
			k.add(NodeConfigInvalid, Error, object, "its node selector cannot be read, so no agent starts",
				Fix{Command: fmt.Sprintf("kubectl --namespace %s edit ciliumnodeconfig %s", o.config.Namespace, o.config.Name)})
			continue
		}
		var ignored []string
		counts := k.counts(o)
		for key := range o.values {
			if !counts || !k.sources.overridable(key) {
				ignored = append(ignored, key)
			}
		}
		if len(ignored) > 0 {
			k.add(NodeConfigIgnored, Info, object, "sets "+strings.Join(slices.Sorted(slices.Values(ignored)), ", ")+", which Cilium's configuration sources and "+
				"override lists ignore", Fix{Value: "daemon.configSources, daemon.allowedConfigOverrides or daemon.blockedConfigOverrides",
				Command: "if it should count, change them in Cilium's Helm values"})
		}
	}
}

// counts reports whether any source takes in the CiliumNodeConfig.
func (k *checker) counts(o override) bool {
	for _, s := range k.sources.Order {
		if s.Kind == SourceNodeConfig && s.Namespace == o.config.Namespace && (s.Name == "" || s.Name == o.config.Name) {
			return true
		}
	}
	return false
}
