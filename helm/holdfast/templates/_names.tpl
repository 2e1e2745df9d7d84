{{/* Every name derives from the release name. Cluster-scoped names, and those in Cilium's namespace, start with the
release's namespace and a dot: a namespace holds no dot, so no two releases share a name. */}}
{{- define "holdfast.watcher" -}}{{ .Release.Name }}-watcher{{- end }}
{{- define "holdfast.installCNI" -}}{{ .Release.Name }}-install-cni{{- end }}
{{- define "holdfast.leave" -}}{{ .Release.Name }}-leave{{- end }}
{{- define "holdfast.config" -}}{{ .Release.Name }}-holdfast{{- end }}
{{- define "holdfast.status" -}}{{ .Release.Name }}-holdfast-status{{- end }}
{{- define "holdfast.lease" -}}{{ .Release.Name }}-holdfast-watcher{{- end }}
{{- define "holdfast.unique" -}}{{ .Release.Namespace }}.{{ .Release.Name }}{{- end }}

{{/* Labels of every object. Argument: {root, component}. */}}
{{- define "holdfast.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/part-of: holdfast
{{ include "holdfast.selector" . }}
{{- with .root.Values.extraLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "holdfast.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Hook annotations of what the Job needs. Argument: the weight. */}}
{{- define "holdfast.leaveHook" -}}
helm.sh/hook: pre-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
