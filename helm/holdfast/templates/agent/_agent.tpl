{{- define "holdfast.agent" -}}{{ .Release.Name }}-agent{{- end }}

{{/* Nodes on which install-cni and the agent run. A node that lost the first label keeps them until everything is taken
out, and with that the second. */}}
{{- define "holdfast.registeredNodes" -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      - matchExpressions:
          - {key: holdfast.dev/node, operator: Exists}
          - {key: kubernetes.io/os, operator: In, values: [linux]}
      - matchExpressions:
          - {key: holdfast.dev/installed, operator: Exists}
          - {key: kubernetes.io/os, operator: In, values: [linux]}
{{- end }}

{{/* Where the runtime's socket is: its directory, where it is given; else it is looked for in the known places below /run. */}}
{{- define "holdfast.agentCRI" -}}
{{- if .Values.chain.criSocket }}{{ dir .Values.chain.criSocket }}{{ else }}/run{{ end -}}
{{- end }}
