{{/* The roles in one of the files of files/roles, which make generate writes. Takes root and file. */}}
{{- define "coder-k8s.roles" -}}
{{- range regexSplit "(?m)^---$" (.root.Files.Get .file) -1 }}
{{- with fromYaml . }}
---
apiVersion: {{ .apiVersion }}
kind: {{ .kind }}
metadata:
  name: {{ .metadata.name }}
  {{- if eq .kind "Role" }}
  namespace: {{ $.root.Release.Namespace }}
  {{- end }}
  {{- include "coder-k8s.metadata" (dict "root" $.root) | nindent 2 }}
rules:
{{ toYaml .rules }}
{{- end }}
{{- end }}
{{- end }}

{{/*
A binding, in a namespace if one is given. Takes root, name, components (whose accounts are bound; in mode all there is
one account for all), namespace, role (if it has another name than the binding) and kind (of the role, if it is no
ClusterRole).
*/}}
{{- define "coder-k8s.binding" -}}
{{- $accounts := list "" -}}
{{- if eq .root.Values.mode "split" -}}
{{- $accounts = list -}}
{{- range include "coder-k8s.components" .root | fromJsonArray -}}
{{- if has . $.components }}{{ $accounts = append $accounts . }}{{ end -}}
{{- end -}}
{{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ ternary "RoleBinding" "ClusterRoleBinding" (hasKey . "namespace") }}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . | quote }}
  {{- end }}
  {{- include "coder-k8s.metadata" (dict "root" .root) | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind | default "ClusterRole" }}
  name: {{ .role | default .name }}
subjects:
{{- range $accounts }}
- kind: ServiceAccount
  name: {{ include "coder-k8s.account" (dict "root" $.root "component" .) }}
  namespace: {{ $.root.Release.Namespace }}
{{- end }}
{{- end }}
