{{/*
Arguments of the program, as a YAML list. An argument that would only repeat the program's default is left out.
Takes root, component and settings.
*/}}
{{- define "coder-k8s.arguments" -}}
{{- $v := .root.Values -}}
{{- $app := dict "" "all" "controller" "controller" "apiserver" "aggregated-apiserver" "mcp" "mcp-http" -}}
- {{ printf "--app=%v" (index $app .component) | quote }}
- --shutdown-delay=2s
{{- if and (has .component (list "" "apiserver")) (ne (int $v.apiserver.port) 6443) }}
- {{ printf "--secure-port=%d" (int $v.apiserver.port) | quote }}
{{- end }}
{{- with $v.watchNamespaces }}
- {{ printf "--watch-namespaces=%v" (join "," .) | quote }}
{{- end }}
{{- if ne $v.clusterDomain "cluster.local" }}
- {{ printf "--cluster-domain=%v" ($v.clusterDomain) | quote }}
{{- end }}
{{- if ne $v.log.level "info" }}
- {{ printf "--log-level=%v" ($v.log.level) | quote }}
{{- end }}
{{- if ne $v.log.format "json" }}
- {{ printf "--log-format=%v" ($v.log.format) | quote }}
{{- end }}
{{- with $v.tracing.endpoint }}
- {{ printf "--tracing-endpoint=%v" . | quote }}
- {{ printf "--tracing-sampling-ratio=%v" ($v.tracing.samplingRatio) | quote }}
{{- if $v.tracing.insecure }}
- --tracing-insecure
{{- end }}
{{- with $v.tracing.caFile }}
- {{ printf "--tracing-ca-file=%v" . | quote }}
{{- end }}
{{- end }}
{{- if eq $v.certificates.mode "certManager" }}
{{- if has .component (list "" "apiserver") }}
- --tls-cert-file=/etc/coder-k8s/apiserver-tls/tls.crt
- --tls-private-key-file=/etc/coder-k8s/apiserver-tls/tls.key
{{- end }}
- --metrics-tls-cert-file=/etc/coder-k8s/metrics-tls/tls.crt
- --metrics-tls-private-key-file=/etc/coder-k8s/metrics-tls/tls.key
{{- end }}
{{- if has .component (list "" "mcp") }}
{{- include "coder-k8s.mcpArguments" $v.mcp }}
{{- end }}
{{- with .settings.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "coder-k8s.mcpArguments" -}}
{{- if not .enabled }}
- --mcp-bind-address=0
{{- else }}
{{- if .readOnly }}
- --mcp-read-only
{{- end }}
{{- with .toolsets }}
- {{ printf "--mcp-toolsets=%v" (join "," .) | quote }}
{{- end }}
{{- if .insideUnconfirmed }}
- --mcp-inside-unconfirmed
{{- end }}
{{- if .requireElicitation }}
- --mcp-require-elicitation
{{- end }}
{{- if ne (float64 .limits.rate) 10.0 }}
- --mcp-rate-limit={{ .limits.rate }}
{{- end }}
{{- if ne (int .limits.burst) 20 }}
- --mcp-rate-burst={{ .limits.burst }}
{{- end }}
{{- if ne (int .limits.inFlight) 256 }}
- --mcp-max-in-flight={{ .limits.inFlight }}
{{- end }}
{{- with .publicURL }}
- {{ printf "--mcp-public-url=%v" . | quote }}
{{- end }}
{{- with concat .allowedHosts (compact (list .ingress.host)) }}
- {{ printf "--mcp-allowed-hosts=%v" (join "," .) | quote }}
{{- end }}
{{- with .allowedOrigins }}
- {{ printf "--mcp-allowed-origins=%v" (join "," .) | quote }}
{{- end }}
{{- if .tlsSecretName }}
- --mcp-tls-cert-file=/etc/coder-k8s/mcp-tls/tls.crt
- --mcp-tls-key-file=/etc/coder-k8s/mcp-tls/tls.key
{{- end }}
{{- if .oidc.issuerURL }}
- --mcp-auth=oidc
- {{ printf "--mcp-oidc-issuer-url=%v" (.oidc.issuerURL) | quote }}
{{- with .oidc.audiences }}
- {{ printf "--mcp-oidc-audience=%v" (join "," .) | quote }}
{{- end }}
{{- with .oidc.usernameClaim }}
- {{ printf "--mcp-oidc-username-claim=%v" . | quote }}
{{- end }}
{{- with .oidc.usernamePrefix }}
- {{ printf "--mcp-oidc-username-prefix=%v" . | quote }}
{{- end }}
{{- with .oidc.groupsClaim }}
- {{ printf "--mcp-oidc-groups-claim=%v" . | quote }}
{{- end }}
{{- with .oidc.groupsPrefix }}
- {{ printf "--mcp-oidc-groups-prefix=%v" . | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
