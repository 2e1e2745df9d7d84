{{/* What the schema cannot say. Each failure is one sentence that ends with the fix. */}}
{{- define "holdfast.validate" -}}
{{- $v := .Values -}}
{{- if gt (len .Release.Name) 32 -}}
{{- fail (printf "release name %q has %d characters and at most 32 are allowed: install under a shorter name" .Release.Name (len .Release.Name)) -}}
{{- end -}}
{{- if $v.plugin.entry -}}
{{- include "holdfast.validateEntry" . -}}
{{- else -}}
{{- include "holdfast.validatePlugin" . -}}
{{- end -}}
{{- include "holdfast.validateChain" . -}}
{{- include "holdfast.validateNamespace" . -}}
{{- if and $v.cilium.enabled (not $v.kubernetesApi.host) (include "holdfast.kubeProxyReplaced" .) -}}
{{- fail "Cilium replaces kube-proxy here, so the Service address of the Kubernetes API works only once Cilium does, and Holdfast starts before it: --set kubernetesApi.host=<address of the API server that works without Services>,kubernetesApi.port=<port>" -}}
{{- end -}}
{{- if and $v.cilium.enabled (eq $v.cilium.namespace .Release.Namespace) (has $v.cilium.configMap.name (list (include "holdfast.config" .) (include "holdfast.status" .))) -}}
{{- fail (printf "cilium.configMap.name is %q, a ConfigMap of this release itself: choose another name" $v.cilium.configMap.name) -}}
{{- end -}}
{{- end }}

{{- define "holdfast.validatePlugin" -}}
{{- $v := .Values -}}
{{- if not $v.plugin.resolvers -}}
{{- fail "plugin.resolvers is empty and governed pods need the addresses of the cluster DNS (kubectl -n kube-system get service kube-dns -o jsonpath='{.spec.clusterIPs}'): --set 'plugin.resolvers={<v4 address>,<v6 address>}'" -}}
{{- end -}}
{{- range $v.plugin.governedNamespaces -}}
{{- $whose := "" -}}
{{- if eq . "kube-system" -}}{{- $whose = "the cluster's own namespace" -}}
{{- else if and $v.cilium.enabled (eq . $v.cilium.namespace) -}}{{- $whose = "Cilium's namespace" -}}
{{- else if eq . $.Release.Namespace -}}{{- $whose = "this release's own namespace" -}}
{{- end -}}
{{- if $whose -}}
{{- fail (printf "plugin.governedNamespaces holds %q, %s, which is never governed: remove it from the list" . $whose) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "holdfast.validateEntry" -}}
{{- $p := .Values.plugin -}}
{{- if eq (toString $p.entry.type) "cilium-cni" -}}
{{- fail "plugin.entry is the plugin that follows Cilium's and its type is \"cilium-cni\": give the other plugin's type" -}}
{{- end -}}
{{- if eq (toString $p.entry.type) "holdfast-cni" -}}
{{- fail "plugin.entry is for another vendor's plugin and its type is \"holdfast-cni\": remove plugin.entry and set plugin.resolvers and its neighbours instead" -}}
{{- end -}}
{{- range $key := list "resolvers" "governedNamespaces" "allowPrivate" "refuse" "seccompProfiles" "runtimeClasses" -}}
{{- if get $p $key -}}
{{- fail (printf "plugin.entry is another vendor's plugin, which knows no plugin.%s: unset one of the two" $key) -}}
{{- end -}}
{{- end -}}
{{- if or $p.sidecar.images $p.ingress.ports -}}
{{- fail "plugin.entry is another vendor's plugin, which knows no plugin.sidecar and no plugin.ingress: unset plugin.entry or those two" -}}
{{- end -}}
{{- end }}

{{- define "holdfast.validateChain" -}}
{{- $v := .Values -}}
{{- $binary := include "holdfast.chainBinary" . -}}
{{- if and $v.plugin.entry (eq $binary "/holdfast-cni") -}}
{{- fail (printf "plugin.entry is the plugin %q and chain.binary is \"/holdfast-cni\", which is another: unset chain.binary if %q is on the nodes already, or give the path that installCNI.extraVolumeMounts brings it in at" $v.plugin.entry.type $v.plugin.entry.type) -}}
{{- end -}}
{{- if and (not $v.plugin.entry) (not $binary) -}}
{{- fail "chain.binary is empty and holdfast-cni comes with Holdfast's own image, of one release with the rest: unset chain.binary" -}}
{{- end -}}
{{- if and (eq $v.chain.strategy "cilium") (not $v.cilium.enabled) -}}
{{- fail "chain.strategy is \"cilium\" and cilium.enabled is false: unset chain.strategy, or set cilium.enabled=true" -}}
{{- end -}}
{{- if and (not $v.plugin.entry) (int $v.agent.metricsPort) (eq (int $v.agent.metricsPort) (int $v.agent.healthPort)) -}}
{{- fail (printf "agent.metricsPort and agent.healthPort are both %d, on the node's own network: choose another for one" (int $v.agent.healthPort)) -}}
{{- end -}}
{{- if and (int $v.installCNI.metricsPort) (eq (int $v.installCNI.metricsPort) (int $v.installCNI.healthPort)) -}}
{{- fail (printf "installCNI.metricsPort and installCNI.healthPort are both %d, on the node's own network: choose another for one" (int $v.installCNI.healthPort)) -}}
{{- end -}}
{{- end }}

{{/* Only what the namespace says of itself is known here: without a label the cluster's default decides. */}}
{{- define "holdfast.validateNamespace" -}}
{{- $enforce := include "holdfast.enforced" . -}}
{{- if has $enforce (list "baseline" "restricted") -}}
{{- fail (printf "namespace %q enforces the Pod Security Standard %q, which admits none of Holdfast's pods: kubectl label namespace %s pod-security.kubernetes.io/enforce=privileged --overwrite" .Release.Namespace $enforce .Release.Namespace) -}}
{{- end -}}
{{- end }}

{{/* What the release's namespace enforces; empty while rendering offline, and where it has no such label. */}}
{{- define "holdfast.enforced" -}}
{{- $namespace := lookup "v1" "Namespace" "" .Release.Namespace | default dict -}}
{{- get (dig "metadata" "labels" dict $namespace) "pod-security.kubernetes.io/enforce" -}}
{{- end }}

{{/* Not empty if Cilium replaces kube-proxy: by the value, else by Cilium's configuration in the cluster, which is
empty while rendering offline and while Cilium is not installed yet. */}}
{{- define "holdfast.kubeProxyReplaced" -}}
{{- $c := .Values.cilium -}}
{{- if kindIs "bool" $c.kubeProxyReplacement -}}
{{- if $c.kubeProxyReplacement -}}true{{- end -}}
{{- else -}}
{{- $config := lookup "v1" "ConfigMap" $c.namespace "cilium-config" | default dict -}}
{{- $data := get $config "data" | default dict -}}
{{- if has (get $data "kube-proxy-replacement") (list "true" "strict") -}}true{{- end -}}
{{- end -}}
{{- end }}
