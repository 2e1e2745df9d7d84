package configmap

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-cni/holdfast/chaining"
)

// Offline is a rendering from files alone: each field is a file's content, nil where none was given.
type Offline struct {
	// Config describes Cilium: at least its cilium-config.
	Config []byte
	// Plugin is plugin.json, or a ConfigMap that has it under that key.
	Plugin []byte
	// Existing is the list that is there, a .conflist or .conf, or a ConfigMap that has it.
	Existing []byte
	// NodeConfigs hold CiliumNodeConfigs and Nodes.
	NodeConfigs [][]byte
	// Name and Namespace are those of the ConfigMap to make. An empty Namespace is that of cilium-config, else kube-system.
	Name, Namespace string
	// Release is to own the ConfigMap; "" leaves it to any.
	Release string
	// Taint is the one a node carries while its chain is not confirmed.
	Taint corev1.Taint
}

// Rendered is what came of it. ConfigMap is nil where an input cannot be used: an error finding says which.
type Rendered struct {
	ConfigMap *corev1.ConfigMap `json:"configMap"`
	Findings  []Finding         `json:"findings"`
}

// Render never returns a broken list. The check refuses a plugin.json in more detail than a conflist needs.
func (o *Offline) Render(check func([]byte, ...string) error) Rendered {
	r := Rendered{Findings: []Finding{}}
	bad := func(object string, err error) Rendered {
		r.Findings = append(r.Findings, Finding{ID: InputInvalid, Severity: Error, Object: object, Message: err.Error(),
			Fix: Fix{Command: "correct the input"}})
		return r
	}
	documents, err := o.documents()
	if err != nil {
		return bad("cilium-config", err)
	}
	r.Findings = append(r.Findings, documents.Findings...)
	namespace := o.namespace(documents)
	cilium := documents.Cilium(namespace)
	request := Request{Cilium: cilium, Name: o.Name, Release: o.Release, PluginObject: "--plugin"}
	request.Plugin, request.PluginErr = o.entry(check, namespace)
	expect := Expect{ConfigMap: o.Name, Taint: o.Taint, APIAddress: true}
	if err := o.existing(&request, &r); err != nil {
		return bad("existing list", err)
	}
	if e := request.Existing; e != nil && e.Namespace != "" && e.Namespace != namespace {
		expect.Strays = []string{e.Namespace}
		request.Existing = nil
	}
	r.Findings = append(r.Findings, Check(cilium, expect)...)
	plan := Make(request)
	r.Findings = append(r.Findings, plan.Findings...)
	if plan.Want == nil && request.Existing != nil {
		request.Adopt = true // nothing is overwritten here: show what adoption would make of it
		plan = Make(request)
	}
	if request.PluginErr == nil {
		r.ConfigMap = plan.Want
	}
	Sort(r.Findings)
	return r
}

func (o *Offline) documents() (*Documents, error) {
	documents, err := ReadDocuments(o.Config)
	if err != nil {
		return nil, err
	}
	if len(documents.ConfigMaps) == 0 {
		return nil, fmt.Errorf("holds no ConfigMap; give %s (kubectl --namespace kube-system get configmap %s --output yaml)", DefaultConfigName, DefaultConfigName)
	}
	if len(documents.ConfigMaps) == 1 && documents.ConfigMaps[0].Name == "" {
		documents.ConfigMaps[0].Name = DefaultConfigName
	}
	for i, data := range o.NodeConfigs {
		more, err := ReadDocuments(data)
		if err != nil {
			return nil, fmt.Errorf("node configuration %d: %w", i+1, err)
		}
		documents.Merge(more)
	}
	return documents, nil
}

// namespace is the one given, else that of cilium-config.
func (o *Offline) namespace(d *Documents) string {
	if o.Namespace != "" {
		return o.Namespace
	}
	for _, cm := range d.ConfigMaps {
		if cm.Name == DefaultConfigName && cm.Namespace != "" {
			return cm.Namespace
		}
	}
	return "kube-system"
}

func (o *Offline) entry(check func([]byte, ...string) error, namespace string) (*chaining.Entry, error) {
	data := o.Plugin
	if documents, err := ReadDocuments(data); err == nil && len(documents.ConfigMaps) == 1 {
		text, found := documents.ConfigMaps[0].Data["plugin.json"]
		if !found {
			return nil, fmt.Errorf("ConfigMap %s has no key plugin.json", documents.ConfigMaps[0].Name)
		}
		data = []byte(text)
	}
	own, _, _ := strings.Cut(o.Release, "/")
	entry, err := ParsePlugin(data, check, "kube-system", namespace, own)
	if err != nil {
		return nil, err
	}
	return &entry, nil
}

// ParsePlugin reads plugin.json: an entry of any vendor, and check's to refuse in more detail.
func ParsePlugin(data []byte, check func([]byte, ...string) error, reserved ...string) (chaining.Entry, error) {
	entry, err := chaining.ParseEntry(data)
	if err != nil {
		return chaining.Entry{}, fmt.Errorf("plugin.json: %w", err)
	}
	if size := len(data); size > MaxPlugin {
		return chaining.Entry{}, fmt.Errorf("plugin.json: has %d bytes, at most %d fit; make it shorter", size, MaxPlugin)
	}
	if entry.Type() == ciliumType {
		return chaining.Entry{}, fmt.Errorf("plugin.json: type: %s is Cilium's own entry; give the plugin that is to follow it", ciliumType)
	}
	if check != nil {
		if err := check(data, reserved...); err != nil {
			return chaining.Entry{}, err
		}
	}
	return entry, nil
}

// existing reads the list that is there: a ConfigMap is judged as one in the cluster would be, a bare list is a start.
func (o *Offline) existing(request *Request, r *Rendered) error {
	if o.Existing == nil {
		return nil
	}
	if documents, err := ReadDocuments(o.Existing); err == nil && len(documents.ConfigMaps) == 1 {
		request.Existing = documents.ConfigMaps[0]
		return nil
	}
	list, err := parseAny(o.Existing)
	if err != nil {
		return err
	}
	request.Base = &list
	if request.Plugin == nil {
		return nil
	}
	if diffs := Compare(request.Cilium.Settings(), list, *request.Plugin); len(diffs) > 0 {
		r.Findings = append(r.Findings, Finding{ID: ListDiffers, Severity: Info, Object: "existing list", Differences: diffs,
			Message: "is not what Cilium must read; the one printed is", Fix: Fix{Command: "use the one printed"}})
	}
	without, err := Without(list, request.Plugin.Type())
	if err != nil {
		return err
	}
	request.Base = &without
	return nil
}

// parseAny reads a .conflist, or a .conf: an object with a type and no plugins.
func parseAny(data []byte) (chaining.List, error) {
	var head struct {
		Type    json.RawMessage `json:"type"`
		Plugins json.RawMessage `json:"plugins"`
	}
	if json.Unmarshal(bytes.TrimSpace(data), &head) == nil && head.Type != nil && head.Plugins == nil {
		return chaining.ParseConf(data)
	}
	return chaining.Parse(data)
}
