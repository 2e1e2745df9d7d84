package configmap

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	ciliumv2 "github.com/cilium/cilium/pkg/k8s/apis/cilium.io/v2"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	yamlstream "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// MaxDocuments is the size, in bytes, of the largest input that Documents reads: Cilium's rendered chart has 0.1 MB, a
// list of 5,000 nodes some 50.
const MaxDocuments = 128 << 20

// Documents are the objects of a YAML stream that say something about a Cilium installation, such as the output of helm
// template, of kubectl get --output yaml, or a single manifest.
type Documents struct {
	ConfigMaps  []*corev1.ConfigMap
	NodeConfigs []*ciliumv2.CiliumNodeConfig
	Nodes       []Node
	DaemonSet   *appsv1.DaemonSet
	Operator    *appsv1.Deployment
	// Findings are values that Kubernetes would refuse but whose meaning is plain.
	Findings []Finding
}

// ReadDocuments reads a stream of YAML or JSON documents; those that are of no interest are passed over. An error names
// the document, counted from 1, the key and the fix.
func ReadDocuments(data []byte) (*Documents, error) {
	d := &Documents{}
	switch {
	case len(data) > MaxDocuments:
		return nil, fmt.Errorf("has %d bytes, at most %d are read; give only what render needs", len(data), MaxDocuments)
	case !utf8.Valid(data):
		return nil, errors.New("is not UTF-8; save it as UTF-8")
	}
	reader := yamlstream.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return d, nil
		}
		if err == nil {
			err = d.add(document, fmt.Sprintf("document %d", n))
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
	}
}

func (d *Documents) add(document []byte, place string) error {
	text, err := yaml.YAMLToJSON(document)
	if err != nil {
		return fmt.Errorf("%w; correct the YAML", err)
	}
	if _, err := yaml.YAMLToJSONStrict(document); err != nil {
		d.Findings = append(d.Findings, Finding{ID: InputInvalid, Severity: Warning, Object: place,
			Message: strings.Join(strings.Fields(err.Error()), " ") + "; the last one counts", Fix: Fix{Command: "remove one"}})
	}
	var head struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Items             []json.RawMessage `json:"items"`
	}
	if string(text) == "null" {
		return nil // a comment between two separators
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return fmt.Errorf("is no Kubernetes object: %w", err)
	}
	switch head.Kind {
	case "List", "ConfigMapList", "NodeList", "CiliumNodeConfigList":
		if strings.Contains(place, "items[") {
			return errors.New("is a list in a list; give the objects themselves")
		}
		for i, item := range head.Items {
			if err := d.add(item, fmt.Sprintf("%s, items[%d]", place, i)); err != nil {
				return fmt.Errorf("items[%d]: %w", i, err)
			}
		}
	case "ConfigMap":
		return d.configMap(text, head.Namespace+"/"+head.Name)
	case "CiliumNodeConfig":
		config := &ciliumv2.CiliumNodeConfig{}
		d.NodeConfigs = append(d.NodeConfigs, config)
		return into(text, config, head.Kind, head.Name)
	case "Node":
		d.Nodes = append(d.Nodes, Node{Name: head.Name, Labels: head.Labels, Annotations: head.Annotations})
	case "DaemonSet":
		if head.Name == ciliumDaemonSet {
			d.DaemonSet = &appsv1.DaemonSet{}
			return into(text, d.DaemonSet, head.Kind, head.Name)
		}
	case "Deployment":
		if head.Name == "cilium-operator" {
			d.Operator = &appsv1.Deployment{}
			return into(text, d.Operator, head.Kind, head.Name)
		}
	case "":
		return errors.New("has no kind; give a Kubernetes object, such as the output of kubectl get --output yaml")
	}
	return nil
}

func into(text []byte, object any, kind, name string) error {
	if err := json.Unmarshal(text, object); err != nil {
		return fmt.Errorf("%s %s: %w; give it as the API server does", kind, name, err)
	}
	return nil
}

// configMap reads one, and turns scalars that somebody forgot to quote into the strings they were meant as.
func (d *Documents) configMap(text []byte, name string) error {
	var object struct {
		metav1.ObjectMeta `json:"metadata"`
		Data              map[string]json.RawMessage `json:"data"`
	}
	if err := into(text, &object, "ConfigMap", name); err != nil {
		return err
	}
	cm := &corev1.ConfigMap{ObjectMeta: object.ObjectMeta, Data: map[string]string{}}
	for _, key := range slices.Sorted(maps.Keys(object.Data)) {
		raw := object.Data[key]
		var value string
		if json.Unmarshal(raw, &value) != nil {
			if bytes.ContainsAny(raw[:1], "{[n") {
				return fmt.Errorf("ConfigMap %s: data.%s: is not a string; quote it", name, key)
			}
			value = string(raw)
			d.Findings = append(d.Findings, Finding{ID: InputInvalid, Severity: Error, Object: "ConfigMap " + name,
				Message: fmt.Sprintf("data.%s is %s without quotes, which Kubernetes refuses", key, shorten(value)),
				Fix:     Fix{Value: fmt.Sprintf("%s: %q", key, value), Command: "quote it"}})
		}
		cm.Data[key] = value
	}
	d.ConfigMaps = append(d.ConfigMaps, cm)
	return nil
}

// Merge adds the objects of another stream.
func (d *Documents) Merge(other *Documents) {
	d.ConfigMaps = append(d.ConfigMaps, other.ConfigMaps...)
	d.NodeConfigs = append(d.NodeConfigs, other.NodeConfigs...)
	d.Nodes = append(d.Nodes, other.Nodes...)
	d.Findings = append(d.Findings, other.Findings...)
	if other.DaemonSet != nil {
		d.DaemonSet = other.DaemonSet
	}
	if other.Operator != nil {
		d.Operator = other.Operator
	}
}

// Cilium is the installation that the documents describe. Objects without a namespace are taken to be in it.
func (d *Documents) Cilium(namespace string) *Cilium {
	c := &Cilium{Namespace: namespace, ConfigMaps: d.ConfigMaps, NodeConfigs: d.NodeConfigs, Nodes: d.Nodes,
		DaemonSet: d.DaemonSet, Operator: d.Operator}
	for _, cm := range c.ConfigMaps {
		if cm.Namespace == "" {
			cm.Namespace = namespace
		}
	}
	for _, config := range c.NodeConfigs {
		if config.Namespace == "" {
			config.Namespace = namespace
		}
	}
	return c
}
