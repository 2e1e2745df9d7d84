{{- define "holdfast.image" -}}
{{- $i := .Values.image -}}
{{- with $i.registry }}{{ trimSuffix "/" . }}/{{ end }}{{ $i.repository }}
{{- if $i.digest }}@{{ $i.digest }}{{ else }}:{{ $i.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/* What every pod of ours shares: it runs on the host's network, before the cluster's network does. */}}
{{- define "holdfast.pod" -}}
hostNetwork: true
# The node's resolver: the cluster's needs the network this pod comes before.
dnsPolicy: Default
enableServiceLinks: false
priorityClassName: {{ .Values.watcher.priorityClassName | quote }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.watcher.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
tolerations:
  - {key: node.kubernetes.io/not-ready, operator: Exists}
  - {key: node.kubernetes.io/network-unavailable, operator: Exists}
  - {key: node.cloudprovider.kubernetes.io/uninitialized, operator: Exists}
  - {key: node-role.kubernetes.io/control-plane, operator: Exists}
  - {key: node.cilium.io/agent-not-ready, operator: Exists}
  - {key: holdfast.dev/unchained, operator: Exists}
  {{- with .Values.watcher.tolerations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "holdfast.container" -}}
image: {{ include "holdfast.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
env:
  - name: POD_NAMESPACE
    valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}}
  {{- with .Values.kubernetesApi.host }}
  - name: KUBERNETES_SERVICE_HOST
    value: {{ . | quote }}
  - name: KUBERNETES_SERVICE_PORT
    value: {{ int $.Values.kubernetesApi.port | quote }}
  {{- end }}
{{- end }}

{{- define "holdfast.metricsBind" -}}
{{- $w := .Values.watcher -}}
{{- if not (int $w.metricsPort) }}0
{{- else if contains ":" $w.metricsAddress }}[{{ $w.metricsAddress }}]:{{ int $w.metricsPort }}
{{- else }}{{ $w.metricsAddress }}:{{ int $w.metricsPort }}
{{- end -}}
{{- end }}
