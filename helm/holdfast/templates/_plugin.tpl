{{/* plugin.json, in a fixed key order: the same values give the same bytes. */}}
{{- define "holdfast.plugin" -}}
{{- $p := .Values.plugin -}}
{{- if $p.entry -}}
{{ toPrettyJson $p.entry }}
{{- else -}}
{
  "type": "holdfast-cni",
  "capabilities": {{ include "holdfast.json" (dict "io.kubernetes.cri.pod-annotations" true) }},
  "resolvers": {{ include "holdfast.json" $p.resolvers }}
{{- with $p.governedNamespaces }},
  "governedNamespaces": {{ include "holdfast.json" . }}
{{- end }}
{{- with $p.allowPrivate }},
  "allowPrivate": {{ include "holdfast.json" . }}
{{- end }}
{{- with $p.refuse }},
  "refuse": {{ include "holdfast.json" . }}
{{- end }}
{{- with $p.sidecar.images }},
  "sidecar": {{ include "holdfast.json" (dict "images" .) }}
{{- end }}
{{- with $p.ingress.ports }},
  "ingress": {{ include "holdfast.json" (dict "ports" .) }}
{{- end }}
{{- with $p.seccompProfiles }},
  "seccompProfiles": {{ include "holdfast.json" . }}
{{- end }}
{{- with $p.runtimeClasses }},
  "runtimeClasses": {{ include "holdfast.json" . }}
{{- end }}
}
{{- end -}}
{{- end }}

{{/* A JSON value, indented as a member of the top-level object. */}}
{{- define "holdfast.json" -}}{{ toPrettyJson . | indent 2 | trim }}{{- end }}
