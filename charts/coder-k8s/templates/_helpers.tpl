{{/*
The part of metadata that all objects share: labels and annotations. Takes root, and labels and annotations of the
object's own.
*/}}
{{- define "coder-k8s.metadata" -}}
{{- $labels := dict "app.kubernetes.io/name" "coder-k8s" -}}
{{- if not .root.Values.forKubectl -}}
{{- $labels = merge $labels (dict
  "app.kubernetes.io/instance" .root.Release.Name
  "app.kubernetes.io/version" .root.Chart.AppVersion
  "app.kubernetes.io/managed-by" .root.Release.Service
  "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63)) -}}
{{- end -}}
labels:
  {{- mergeOverwrite (deepCopy .root.Values.labels) $labels (.labels | default dict) | toYaml | nindent 2 }}
{{- with mergeOverwrite (deepCopy .root.Values.annotations) (.annotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Labels by which the pods of a component are found. Takes the component; none is the one of mode all. */}}
{{- define "coder-k8s.selector" -}}
app.kubernetes.io/name: coder-k8s
{{- with . }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end }}

{{/* Name of a component's Deployment. Takes the component. */}}
{{- define "coder-k8s.name" -}}
{{ list "coder-k8s" . | compact | join "-" }}
{{- end }}

{{/* Name of a component's ServiceAccount. Takes root and component. */}}
{{- define "coder-k8s.account" -}}
{{ list .root.Values.serviceAccount.name .component | compact | join "-" }}
{{- end }}

{{/* What the Services share. */}}
{{- define "coder-k8s.serviceFamilies" -}}
{{- with .Values.service.ipFamilyPolicy }}
ipFamilyPolicy: {{ . }}
{{- end }}
{{- with .Values.service.ipFamilies }}
ipFamilies:
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}

{{/* The components that run in a Deployment of their own, as a JSON list. In mode all there is one, without a name. */}}
{{- define "coder-k8s.components" -}}
{{- if eq .Values.mode "all" -}}
{{ list "" | toJson }}
{{- else if .Values.mcp.enabled -}}
{{ list "controller" "apiserver" "mcp" | toJson }}
{{- else -}}
{{ list "controller" "apiserver" | toJson }}
{{- end }}
{{- end }}

{{/* The values of a component's Deployment: those of the chart, changed by those of the component. Takes root and component. */}}
{{- define "coder-k8s.settings" -}}
{{- $shared := pick .root.Values "replicas" "resources" "priorityClassName" "nodeSelector" "tolerations" "affinity"
  "podLabels" "podAnnotations" "extraArgs" "extraEnv" "extraVolumes" "extraVolumeMounts" "initContainers" "extraContainers" -}}
{{- $own := dict -}}
{{- if .component }}{{ $own = index .root.Values.components .component }}{{ end -}}
{{ mergeOverwrite (deepCopy $shared) (deepCopy $own) | toJson }}
{{- end }}

{{- define "coder-k8s.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}:{{ $tag }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ $tag }}
{{- end }}
{{- end }}

{{- define "coder-k8s.pullSecrets" -}}
{{- with .Values.image.pullSecrets -}}
imagePullSecrets:
{{- range . }}
- name: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}
