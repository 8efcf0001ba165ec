{{/* What the schema cannot say: values that contradict each other. Each sentence tells what to do. */}}
{{- define "coder-k8s.checks" -}}
{{- if eq .Values.mode "all" }}
{{- range $name, $own := .Values.components }}
{{- if $own }}
{{- fail (printf "components.%s is set, but with mode \"all\" there is one Deployment for everything: set replicas, resources and the like beside mode, or set mode to \"split\"" $name) }}
{{- end }}
{{- end }}
{{- end }}
{{- if has .Release.Namespace .Values.watchNamespaces }}
{{- fail (printf "watchNamespaces names %q, where the operator itself is: keep control planes in other namespaces" .Release.Namespace) }}
{{- end }}
{{- if and (not .Values.crds.install) (not .Values.crds.keep) }}
{{- fail "crds.keep is false with crds.install false: the definitions are not this release's to remove; leave crds.keep out" }}
{{- end }}
{{- $issuer := .Values.certificates.certManager.issuerRef }}
{{- if and $issuer (not (and $issuer.name $issuer.kind)) }}
{{- fail "certificates.certManager.issuerRef needs a name and a kind, for example {name: company, kind: ClusterIssuer}" }}
{{- end }}
{{- if and $issuer (ne .Values.certificates.mode "certManager") }}
{{- fail "certificates.certManager.issuerRef is set, but the operator makes its certificate itself: set certificates.mode to \"certManager\", or remove the issuer" }}
{{- end }}
{{- if and .Values.mcp.oidc.issuerURL (not .Values.mcp.publicURL) }}
{{- fail "mcp.oidc.issuerURL is set without mcp.publicURL: set the URL of the endpoint as clients write it, for example https://mcp.example.com/mcp" }}
{{- end }}
{{- if and (eq .Values.mode "split") (not .Values.mcp.enabled) .Values.components.mcp }}
{{- fail "components.mcp is set, but mcp.enabled is false: remove one of the two" }}
{{- end }}
{{- end }}
