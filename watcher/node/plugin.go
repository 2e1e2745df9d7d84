package node

import (
	"fmt"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/configmap"
	"github.com/holdfast-cni/holdfast/watcher"
)

// ParsePlugin reads the entry that is to be chained, from plugin.json or from a ConfigMap that has it. Check may refuse
// it in more detail.
func ParsePlugin(data []byte, check func([]byte, ...string) error) (chaining.Entry, error) {
	if documents, err := configmap.ReadDocuments(data); err == nil && len(documents.ConfigMaps) == 1 {
		text, found := documents.ConfigMaps[0].Data[watcher.PluginKey]
		if !found {
			return chaining.Entry{}, fmt.Errorf("the ConfigMap has no key %s; give the release's own", watcher.PluginKey)
		}
		data = []byte(text)
	}
	return configmap.ParsePlugin(data, check, "kube-system")
}
