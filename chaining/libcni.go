package chaining

//lint:file-ignore SA1019 libcni calls .conf files deprecated; runtimes still load them.

import (
	"github.com/containernetworking/cni/libcni"
	"github.com/go-json-experiment/json/jsontext"
)

// libcniReads is the runtime's own answer to a file that Holdfast refuses: it is laxer, and CRI-O skips only what libcni
// refuses. Alone reports that the network takes no drop-ins, empty that the file names no plugin.
func libcniReads(data []byte, isList bool) (network string, alone, empty bool, err error) {
	if isList {
		list, err := libcni.NetworkConfFromBytes(data)
		if err != nil {
			return "", false, false, err
		}
		return list.Name, list.LoadOnlyInlinedPlugins, len(list.Plugins) == 0, nil
	}
	conf, err := libcni.ConfFromBytes(data)
	if err != nil {
		return "", false, false, err
	}
	list, err := libcni.ConfListFromConf(conf)
	if err != nil {
		return "", false, false, err
	}
	return list.Name, true, false, nil
}

// libcniReadsDropin is the same for one plugin's configuration in a drop-in directory.
func libcniReadsDropin(data []byte) error {
	_, err := libcni.NetworkPluginConfFromBytes(data)
	return err
}

func stringNode(text string) *node { return &node{kind: jsontext.Kind('"'), text: text} }
