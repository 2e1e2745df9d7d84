package configmap

import (
	"crypto/sha256"
	"encoding/hex"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-cni/holdfast/chaining"
)

// Marks that the ConfigMap carries. Managed fields would tell as much, but a backup or a copy loses them.
const (
	ManagedByLabel    = "app.kubernetes.io/managed-by"
	ManagedBy         = "holdfast-watcher"
	ReleaseAnnotation = "holdfast.dev/release" // namespace/name of the Holdfast release that owns the list
	DigestAnnotation  = "holdfast.dev/digest"  // of the list as written
	AdoptedAnnotation = "holdfast.dev/adopted" // "true": the list started from one that Holdfast did not write
	AdoptAnnotation   = "holdfast.dev/adopt"   // set by a person: "true" consents to the take-over
	PluginAnnotation  = "holdfast.dev/plugin"  // type of the entry that is ours, so that it is found again
	DefaultConfigMap  = "holdfast-cni-config"
)

// Owner says who wrote a ConfigMap.
type Owner int

// Owners.
const (
	Nobody   Owner = iota // there is none
	Ours                  // written by this release
	Released              // written by a release that has let go of it: anyone's to take
	Another               // written by another release of Holdfast
	Foreign               // not written by Holdfast
)

// OwnerOf reads the marks. A ConfigMap with the UID known to be ours stays ours when somebody strips them, but not when
// another release has taken it over.
func OwnerOf(cm *corev1.ConfigMap, release, known string) Owner {
	if cm == nil {
		return Nobody
	}
	marked, owner := cm.Labels[ManagedByLabel] == ManagedBy, cm.Annotations[ReleaseAnnotation]
	switch {
	case marked && owner == release:
		return Ours
	case marked && owner != "":
		return Another
	case known != "" && string(cm.UID) == known:
		return Ours
	case marked:
		return Released
	default:
		return Foreign
	}
}

// Digest identifies a list by its bytes.
func Digest(list []byte) string {
	sum := sha256.Sum256(list)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Object is the ConfigMap that holds the list, with our marks and nothing else. An empty release lets go of it.
func Object(namespace, name, key, release, plugin string, list chaining.List, adopted bool) *corev1.ConfigMap {
	annotations := map[string]string{DigestAnnotation: Digest(list.Bytes())}
	if plugin != "" {
		annotations[PluginAnnotation] = plugin
	}
	if release != "" {
		annotations[ReleaseAnnotation] = release
	}
	if adopted {
		annotations[AdoptedAnnotation] = "true"
	}
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Labels:      map[string]string{ManagedByLabel: ManagedBy},
			Annotations: annotations,
		},
		Data: map[string]string{key: string(list.Bytes())},
	}
}

// upToDate reports whether the cluster's ConfigMap holds all that the wanted one does.
func upToDate(have, want *corev1.ConfigMap) bool {
	return holds(have.Data, want.Data) && holds(have.Labels, want.Labels) && holds(have.Annotations, want.Annotations) &&
		have.Annotations[ReleaseAnnotation] == want.Annotations[ReleaseAnnotation] &&
		have.Annotations[AdoptedAnnotation] == want.Annotations[AdoptedAnnotation]
}

func holds(have, want map[string]string) bool {
	for key, value := range want {
		if got, found := have[key]; !found || got != value {
			return false
		}
	}
	return true
}
