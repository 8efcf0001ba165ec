{{/*
The Secrets of which the program reads files, as a JSON list: name is that of the volume, and of the directory below
/etc/coder-k8s. Takes root, and api and mcp: whether the Deployment runs that component.
*/}}
{{- define "coder-k8s.files" -}}
{{- $files := list -}}
{{- if eq .root.Values.certificates.mode "certManager" -}}
{{- $files = append $files (dict "name" "metrics-tls" "secret" "coder-k8s-metrics-cert") -}}
{{- if .api -}}
{{- $files = append $files (dict "name" "apiserver-tls" "secret" "coder-k8s-apiserver-cert") -}}
{{- end -}}
{{- end -}}
{{- if and .mcp .root.Values.mcp.tlsSecretName -}}
{{- $files = append $files (dict "name" "mcp-tls" "secret" .root.Values.mcp.tlsSecretName) -}}
{{- end -}}
{{ $files | toJson }}
{{- end }}
