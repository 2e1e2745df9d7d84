{{- define "holdfast.image" -}}
{{- $i := .Values.image -}}
{{- with $i.registry }}{{ trimSuffix "/" . }}/{{ end }}{{ $i.repository }}
{{- if $i.digest }}@{{ $i.digest }}{{ else }}:{{ $i.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/* What every pod of ours shares: it runs on the host's network, before the cluster's network does. */}}
{{- define "holdfast.onHostNetwork" -}}
hostNetwork: true
# The node's resolver: the cluster's needs the network this pod comes before.
dnsPolicy: Default
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What the watcher and the leave Job share beside that: they have no rights on their node. */}}
{{- define "holdfast.pod" -}}
{{ include "holdfast.onHostNetwork" . }}
priorityClassName: {{ .Values.watcher.priorityClassName | quote }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
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

{{/* The last key is env, so that a container can add to it. */}}
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

{{/* Whether the network is Cilium's, and where. */}}
{{- define "holdfast.ciliumArgs" -}}
{{- $c := .Values.cilium -}}
{{- if $c.enabled -}}
- --cilium-namespace={{ $c.namespace }}
- --cilium-configmap={{ $c.configMap.name }}
{{- else -}}
- --cilium=false
{{- end }}
{{- end }}

{{/* Arguments of every command that stays. Argument: {root, address, metrics, health}. */}}
{{- define "holdfast.serveArgs" -}}
- --metrics-bind-address={{ include "holdfast.metricsBind" . }}
- --health-probe-bind-address=127.0.0.1:{{ int .health }}
- --log-level={{ .root.Values.logLevel }}
{{- with .root.Values.kubernetesApi.host }}
- --kubernetes-api-host={{ . }}
- --kubernetes-api-port={{ int $.root.Values.kubernetesApi.port }}
{{- end }}
{{- end }}

{{- define "holdfast.metricsBind" -}}
{{- if not (int .metrics) }}0
{{- else if contains ":" .address }}[{{ .address }}]:{{ int .metrics }}
{{- else }}{{ .address }}:{{ int .metrics }}
{{- end -}}
{{- end }}

{{/* Ports and probes of every command that stays. Argument as above. */}}
{{- define "holdfast.served" -}}
# Declared so that the scheduler puts no two on one node.
ports:
  {{- if int .metrics }}
  - {name: metrics, containerPort: {{ int .metrics }}, hostPort: {{ int .metrics }}, protocol: TCP}
  {{- end }}
  - {name: health, containerPort: {{ int .health }}, hostPort: {{ int .health }}, protocol: TCP}
livenessProbe:
  httpGet: {host: 127.0.0.1, port: {{ int .health }}, path: /healthz, scheme: HTTP}
  initialDelaySeconds: 10
  periodSeconds: 20
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {host: 127.0.0.1, port: {{ int .health }}, path: /readyz, scheme: HTTP}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 3
{{- end }}

{{/* Annotations by which Prometheus finds a pod. Argument as above. */}}
{{- define "holdfast.scraped" -}}
{{- if and .root.Values.metrics.scrapeAnnotations (int .metrics) -}}
prometheus.io/scrape: "true"
prometheus.io/port: {{ int .metrics | quote }}
prometheus.io/path: /metrics
{{- end }}
{{- end }}
