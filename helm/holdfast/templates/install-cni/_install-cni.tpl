{{/* The executable that install-cni puts on the node: null is ours for our own plugin, and none for another vendor's. */}}
{{- define "holdfast.chainBinary" -}}
{{- $b := .Values.chain.binary -}}
{{- if not (kindIs "invalid" $b) }}{{ $b }}
{{- else if not .Values.plugin.entry }}/holdfast-cni
{{- end -}}
{{- end }}

{{/* Not empty if the places on the node are given, and so need not be asked of the runtime. */}}
{{- define "holdfast.narrow" -}}
{{- $c := .Values.chain -}}
{{- if and $c.confDir $c.binDir $c.criSocket }}true{{ end -}}
{{- end }}

{{/* What install-cni sees of the node, under /host: the places it uses, where they are given. Otherwise it asks the
runtime which they are, and a mount cannot be chosen after the pod has started: so the node's root. Mounts made on the
node later are seen as well, and none is held that the node lets go of. */}}
{{- define "holdfast.hostMounts" -}}
{{- if include "holdfast.narrow" . -}}
- {name: conf, mountPath: /host{{ .Values.chain.confDir }}, mountPropagation: HostToContainer}
- {name: bin, mountPath: /host{{ .Values.chain.binDir }}, mountPropagation: HostToContainer}
# Connecting to a socket is no write. The directory, as a runtime that restarts makes a new socket.
- {name: cri, mountPath: /host{{ dir .Values.chain.criSocket }}, mountPropagation: HostToContainer, readOnly: true}
{{- else -}}
- {name: host, mountPath: /host, mountPropagation: HostToContainer}
{{- end }}
{{- end }}

{{- define "holdfast.hostVolumes" -}}
{{- if include "holdfast.narrow" . -}}
# install-cni can be first on a new node: these two may not be there yet.
- name: conf
  hostPath: {path: {{ .Values.chain.confDir }}, type: DirectoryOrCreate}
- name: bin
  hostPath: {path: {{ .Values.chain.binDir }}, type: DirectoryOrCreate}
- name: cri
  hostPath: {path: {{ dir .Values.chain.criSocket }}, type: Directory}
{{- else -}}
- name: host
  hostPath: {path: /, type: Directory}
{{- end }}
{{- end }}
