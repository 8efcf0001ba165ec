{{/* What the schema cannot say: values that contradict each other. Each sentence tells what to do. */}}
{{- define "coder-k8s.checks" -}}
{{- if eq .Values.mode "all" }}
{{- range $name, $own := .Values.components }}
{{- if $own }}
{{- fail (printf "components.%s is set, but with mode \"all\" there is one Deployment for everything: set replicas, resources and the like beside mode, or set mode to \"split\"" $name) }}
{{- end }}
{{- end }}
{{- end }}
{{- $others := list 8081 8443 }}
{{- if and (eq .Values.mode "all") .Values.mcp.enabled }}
{{- $others = append $others 8090 }}
{{- end }}
{{- if has (int .Values.apiserver.port) $others }}
{{- fail (printf "apiserver.port %d is a port that the pod serves something else on: choose another, for example 10250" (int .Values.apiserver.port)) }}
{{- end }}
{{- if and .Values.apiserver.hostNetwork (eq (int .Values.apiserver.port) 10250) }}
{{- fail "apiserver.port is 10250 with apiserver.hostNetwork, but on a node that is the port of the kubelet: choose another, for example 6443, or leave apiserver.hostNetwork out" }}
{{- end }}
{{- if and (eq .Values.service.ipFamilyPolicy "SingleStack") (gt (len .Values.service.ipFamilies) 1) }}
{{- fail "service.ipFamilies names two families, but service.ipFamilyPolicy is SingleStack: name one, or set PreferDualStack or RequireDualStack" }}
{{- end }}
{{- if and (eq .Values.dnsPolicy "None") (not .Values.dnsConfig.nameservers) }}
{{- fail "dnsPolicy is None without dnsConfig.nameservers, so the pods could resolve no name: name at least one nameserver" }}
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
{{- if and .Values.mcp.enabled .Values.mcp.insideUnconfirmed (not (has "inside" .Values.mcp.toolsets)) }}
{{- fail "mcp.insideUnconfirmed is set, but mcp.toolsets does not have inside: add it, or remove the other" }}
{{- end }}
{{- if and .Values.mcp.ingress.host (not .Values.mcp.enabled) }}
{{- fail "mcp.ingress.host is set, but mcp.enabled is false: remove one of the two" }}
{{- end }}
{{- if and (eq .Values.mode "split") (not .Values.mcp.enabled) .Values.components.mcp }}
{{- fail "components.mcp is set, but mcp.enabled is false: remove one of the two" }}
{{- end }}
{{- end }}
