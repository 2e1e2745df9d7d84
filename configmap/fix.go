package configmap

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// fixer knows how the installation is managed, and so which command changes it.
type fixer struct {
	namespace       string
	release, chart  string // of Cilium's Helm release; empty where Helm does not manage it
	configNamespace string
	configName      string
}

func newFixer(c *Cilium) fixer {
	sources, _ := ParseSources(c.DaemonSet, c.Namespace) // Check reports the error
	f := fixer{namespace: c.Namespace, configNamespace: c.Namespace, configName: DefaultConfigName}
	for _, s := range sources.Order {
		if s.Kind == SourceConfigMap {
			f.configNamespace, f.configName = s.Namespace, s.Name
			break
		}
	}
	cm := c.Config(f.configNamespace, f.configName)
	if cm == nil {
		f.release = ciliumName // nothing is there yet: it will most likely be installed by its chart
	} else {
		f.release = cm.Annotations["meta.helm.sh/release-name"] // set by Helm on everything it installs
	}
	if c.DaemonSet != nil {
		f.chart = strings.TrimPrefix(c.DaemonSet.Labels["helm.sh/chart"], "cilium-")
	}
	if f.release == "" && f.chart != "" {
		f.release = ciliumName // rendered by the chart, and not yet, or not by Helm, installed
	}
	return f
}

// values is the fix that sets values of Cilium's chart. Without --version, Helm would upgrade Cilium too.
func (f fixer) values(pairs ...string) Fix {
	version := f.chart
	if version == "" {
		version = "$(helm get metadata " + f.helmName() + " --namespace " + f.namespace + " -o json | jq -r .version)"
	}
	sets := make([]string, len(pairs))
	for i, pair := range pairs {
		sets[i] = "--set " + quote(pair)
	}
	return Fix{
		Value: strings.Join(pairs, ", "),
		Command: fmt.Sprintf("helm upgrade %s cilium/cilium --version %s --namespace %s --reuse-values %s",
			f.helmName(), version, f.namespace, strings.Join(sets, " ")),
	}
}

func (f fixer) helmName() string {
	if f.release == "" {
		return ciliumName
	}
	return quote(f.release)
}

// restart is what makes agents take a setting that they read at start.
func (f fixer) restart() string {
	return fmt.Sprintf("kubectl --namespace %s rollout restart daemonset/%s", f.namespace, ciliumDaemonSet)
}

// setting is the fix that gives the key the value, at the place the present value comes from.
func (f fixer) setting(key, want string, have Value) Fix {
	switch have.Source.Kind {
	case SourceNodeConfig:
		return Fix{
			Value: fmt.Sprintf("%s=%s in %s", key, want, have.Source),
			Command: fmt.Sprintf("kubectl --namespace %s patch ciliumnodeconfig %s --type merge --patch %s && %s",
				have.Source.Namespace, have.Source.Name, quote(jsonOf("spec", jsonMap{"defaults": jsonMap{key: want}})), f.restart()),
		}
	case SourceNode:
		return Fix{
			Value: fmt.Sprintf("%s%s=%s on %s", configAnnotation, key, want, have.Source),
			Command: fmt.Sprintf("kubectl annotate node %s --overwrite %s && %s",
				have.Source.Name, quote(configAnnotation+key+"="+want), f.restart()),
		}
	case sourceFlags:
		return Fix{
			Value: fmt.Sprintf("%s=%s", key, want),
			Command: fmt.Sprintf("correct it in the arguments or environment of %s (Helm values extraArgs and extraEnv)",
				have.Source),
		}
	}
	if value := helmValues[key]; value != "" && f.release != "" {
		return f.values(value + "=" + want)
	}
	return Fix{
		Value: fmt.Sprintf("%s=%s", key, want),
		Command: fmt.Sprintf("kubectl --namespace %s patch configmap %s --type merge --patch %s && %s",
			f.configNamespace, f.configName, quote(jsonOf("data", jsonMap{key: want})), f.restart()),
	}
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=@%+,-]+$`)

// quote makes text from the cluster one word of a shell command.
func quote(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

type jsonMap map[string]any

// jsonOf cannot fail: it is given strings and maps of strings.
func jsonOf(key string, value any) string {
	data, _ := json.Marshal(jsonMap{key: value})
	return string(data)
}
