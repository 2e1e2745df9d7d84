package helm_test

import (
	"strings"
	"testing"

	"github.com/holdfast-cni/holdfast/helm"
)

const resolvers = "plugin: {resolvers: [10.96.0.10]}\n"

func TestN7N17RefusalsAreOneSentenceWithTheFix(t *testing.T) {
	const kpr = "Cilium replaces kube-proxy here, so the Service address of the Kubernetes API works only once Cilium does, " +
		"and Holdfast starts before it: --set kubernetesApi.host=<address of the API server that works without Services>," +
		"kubernetesApi.port=<port>"
	tests := []struct {
		name, values, release, namespace, want string
		noSchema                               bool
	}{
		{name: "N7 no resolvers", values: "{}",
			want: "plugin.resolvers is empty and governed pods need the addresses of the cluster DNS (kubectl -n kube-system " +
				"get service kube-dns -o jsonpath='{.spec.clusterIPs}'): --set 'plugin.resolvers={<v4 address>,<v6 address>}'"},
		{name: "N7 a release name of 33 characters", values: resolvers, release: strings.Repeat("r", 33),
			want: `release name "rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr" has 33 characters and at most 32 are allowed: ` +
				"install under a shorter name"},
		{name: "Cilium's namespace governed", values: "cilium: {namespace: cilium}\n" +
			"plugin: {resolvers: [10.96.0.10], governedNamespaces: [agents, cilium]}",
			want: `plugin.governedNamespaces holds "cilium", Cilium's namespace, which is never governed: remove it from the list`},
		{name: "the release's namespace governed", values: "plugin: {resolvers: [10.96.0.10], governedNamespaces: [holdfast-system]}",
			want: `plugin.governedNamespaces holds "holdfast-system", this release's own namespace, which is never governed: ` +
				"remove it from the list"},
		{name: "kube-system governed, where no schema is checked", noSchema: true,
			values: "plugin: {resolvers: [10.96.0.10], governedNamespaces: [kube-system]}",
			want: `plugin.governedNamespaces holds "kube-system", the cluster's own namespace, which is never governed: ` +
				"remove it from the list"},
		{name: "KPR and no address", values: resolvers + "cilium: {kubeProxyReplacement: true}", want: kpr},
		{name: "N17 our own plugin as another vendor's", values: "plugin: {entry: {type: holdfast-cni}}",
			want: `plugin.entry is for another vendor's plugin and its type is "holdfast-cni": remove plugin.entry and set ` +
				"plugin.resolvers and its neighbours instead"},
		{name: "N17 Cilium's own plugin", values: "plugin: {entry: {type: cilium-cni}}",
			want: `plugin.entry is the plugin that follows Cilium's and its type is "cilium-cni": give the other plugin's type`},
		{name: "N17 an entry beside our own values", values: "plugin: {entry: {type: istio-cni}, resolvers: [10.96.0.10]}",
			want: "plugin.entry is another vendor's plugin, which knows no plugin.resolvers: unset one of the two"},
		{name: "N17 an entry beside a sidecar", values: "plugin: {entry: {type: istio-cni}, ingress: {ports: [80]}}",
			want: "plugin.entry is another vendor's plugin, which knows no plugin.sidecar and no plugin.ingress: unset plugin.entry " +
				"or those two"},
		{name: "Cilium's list in the release's own ConfigMap", namespace: "kube-system",
			values: resolvers + "cilium: {configMap: {name: rel-holdfast}}",
			want:   `cilium.configMap.name is "rel-holdfast", a ConfigMap of this release itself: choose another name`},
		{name: "N17 our binary for another vendor's plugin", values: "plugin: {entry: {type: istio-cni}}\nchain: {binary: /holdfast-cni}",
			want: `plugin.entry is the plugin "istio-cni" and chain.binary is "/holdfast-cni", which is another: unset chain.binary ` +
				`if "istio-cni" is on the nodes already, or give the path that installCNI.extraVolumeMounts brings it in at`},
		{name: "our plugin without its binary", values: resolvers + "chain: {binary: ''}",
			want: "chain.binary is empty and holdfast-cni comes with Holdfast's own image, of one release with the rest: unset chain.binary"},
		{name: "Cilium's list without Cilium", values: resolvers + "chain: {strategy: cilium}\ncilium: {enabled: false}",
			want: `chain.strategy is "cilium" and cilium.enabled is false: unset chain.strategy, or set cilium.enabled=true`},
		{name: "one port for two", values: resolvers + "installCNI: {metricsPort: 9644}",
			want: "installCNI.metricsPort and installCNI.healthPort are both 9644, on the node's own network: choose another for one"},
		{
			name: "the agent's ports are one", values: resolvers + "agent: {metricsPort: 9646}",
			want: "agent.metricsPort and agent.healthPort are both 9646, on the node's own network: choose another for one",
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c, err := helm.Chart()
			if err != nil {
				t.Fatal(err)
			}
			if tc.noSchema {
				c.Schema = nil
			}
			o := helm.RenderOptions{Release: "rel", Namespace: "holdfast-system", Values: parse(t, tc.values)}
			if tc.release != "" {
				o.Release = tc.release
			}
			if tc.namespace != "" {
				o.Namespace = tc.namespace
			}
			_, _, err = helm.Render(c, o)
			if err == nil {
				t.Fatal("rendered")
			}
			// Helm puts the template and the call in front.
			if !strings.HasSuffix(err.Error(), ": "+tc.want) {
				t.Errorf("got  %s\nwant it to end with %s", err, tc.want)
			}
		})
	}
}

func TestN7N17AcceptedAtTheBorder(t *testing.T) {
	tests := []struct{ name, values, release string }{
		{name: "N7 a release name of 32 characters", values: resolvers, release: strings.Repeat("r", 32)},
		{name: "N17 an entry needs no resolvers", values: "plugin: {entry: {type: linkerd-cni}}"},
		{name: "kube-proxy stays", values: resolvers + "cilium: {kubeProxyReplacement: false}"},
		{name: "KPR is of no account without Cilium", values: resolvers + "cilium: {enabled: false, kubeProxyReplacement: true}"},
		{name: "N17 an entry whose binary is on the nodes", values: "plugin: {entry: {type: linkerd-cni}}\nchain: {binary: ''}"},
		{name: "two of three places", values: resolvers + "chain: {confDir: /etc/cni/net.d, criSocket: /run/crio/crio.sock}"},
		{name: "no metrics", values: resolvers + "installCNI: {metricsPort: 0}"},
		{name: "KPR with an address", values: resolvers + "cilium: {kubeProxyReplacement: true}\nkubernetesApi: {host: api.example.com}"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if _, _, err := render(t, helm.RenderOptions{Release: tc.release, Values: parse(t, tc.values)}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestN7N16SchemaRefusesWhatCannotBeMeant(t *testing.T) {
	tests := []struct{ name, values, path string }{
		{"a value that does not exist", resolvers + "plugins: {}", "plugins"},
		{"a resolver that is a name", "plugin: {resolvers: [kube-dns.kube-system]}", "/plugin/resolvers/0"},
		{"a resolver out of range", "plugin: {resolvers: [10.96.0.256]}", "/plugin/resolvers/0"},
		{"a resolver with a port", "plugin: {resolvers: ['10.96.0.10:53']}", "/plugin/resolvers/0"},
		{"a range without a length", "plugin: {resolvers: [10.96.0.10], allowPrivate: [10.0.0.0]}", "/plugin/allowPrivate/0"},
		{"a range too long", "plugin: {resolvers: [10.96.0.10], refuse: [10.0.0.0/33]}", "/plugin/refuse/0"},
		{"kube-system governed", "plugin: {resolvers: [10.96.0.10], governedNamespaces: [kube-system]}", "/plugin/governedNamespaces/0"},
		{"a port that is none", "plugin: {resolvers: [10.96.0.10], ingress: {ports: [70000]}}", "/plugin/ingress/ports/0"},
		{"a sidecar by tag", "plugin: {resolvers: [10.96.0.10], sidecar: {images: [sidecar:v1]}}", "/plugin/sidecar/images/0"},
		{"N17 an entry without type", "plugin: {entry: {log_level: info}}", "/plugin/entry"},
		{"N17 a type with a path", "plugin: {entry: {type: ../istio-cni}}", "/plugin/entry/type"},
		{"N16 a short digest", resolvers + "image: {digest: 'sha256:abc'}", "/image/digest"},
		{"N16 a repository with a tag", resolvers + "image: {repository: 'holdfast:v1'}", "/image/repository"},
		{"a string for a boolean", resolvers + "cilium: {enabled: 'false'}", "/cilium/enabled"},
		{"a string for KPR", resolvers + "cilium: {kubeProxyReplacement: 'true'}", "/cilium/kubeProxyReplacement"},
		{"Cilium's own ConfigMap for the list", resolvers + "cilium: {configMap: {name: cilium-config}}", "/cilium/configMap/name"},
		{"an API address with a scheme", resolvers + "kubernetesApi: {host: 'https://10.0.0.1'}", "/kubernetesApi/host"},
		{"a label the chart sets itself", resolvers + "extraLabels: {app.kubernetes.io/name: x}", "propertyName 'app.kubernetes.io/name'"},
		{"no replicas", resolvers + "watcher: {replicas: 0}", "/watcher/replicas"},
		{"a strategy that does not exist", resolvers + "chain: {strategy: dropin}", "/chain/strategy"},
		{"a relative directory", resolvers + "chain: {confDir: etc/cni/net.d}", "/chain/confDir"},
		{"a directory with dots", resolvers + "chain: {binDir: /opt/../bin}", "/chain/binDir"},
		{"a directory that ends in a slash", resolvers + "chain: {binDir: /opt/cni/bin/}", "/chain/binDir"},
		{"a socket as a URL", resolvers + "chain: {criSocket: 'unix:///run/containerd/containerd.sock'}", "/chain/criSocket"},
		{"a socket in the root", resolvers + "chain: {criSocket: /containerd.sock}", "/chain/criSocket"},
		{"a relative binary", resolvers + "chain: {binary: holdfast-cni}", "/chain/binary"},
		{"a surge", resolvers + "installCNI: {updateStrategy: {rollingUpdate: {maxSurge: 1}}}", "/installCNI/updateStrategy/rollingUpdate"},
		{"no pod replaced at a time", resolvers + "installCNI: {updateStrategy: {rollingUpdate: {maxUnavailable: 0}}}", "/installCNI/updateStrategy/rollingUpdate/maxUnavailable"},
		{"a toleration that is none", resolvers + "installCNI: {tolerations: [all]}", "/installCNI/tolerations/0"},
		{"an agent that cuts by another word", resolvers + "agent: {existingPods: delete}", "/agent/existingPods"},
		{"an install-cni value that does not exist", resolvers + "installCNI: {hostPID: true}", "/installCNI"},
		{"a log level that does not exist", resolvers + "logLevel: loud", "/logLevel"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := render(t, helm.RenderOptions{Values: parse(t, tc.values)})
			if err == nil {
				t.Fatal("rendered")
			}
			if !strings.Contains(err.Error(), "values don't meet the specifications of the schema") ||
				!strings.Contains(err.Error(), tc.path) {
				t.Errorf("the schema does not name %s: %v", tc.path, err)
			}
		})
	}
}
