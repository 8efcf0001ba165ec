{{/*
The account of what Helm runs beside the operator. Takes root, name, hook (the annotations by which Helm knows when),
rules in the whole cluster, and localRules in the operator's namespace, which may be left out.
*/}}
{{- define "coder-k8s.jobAccount" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  {{- include "coder-k8s.metadata" (dict "root" .root "annotations" .hook) | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ .name }}
  {{- include "coder-k8s.metadata" (dict "root" .root "annotations" .hook) | nindent 2 }}
rules:
{{ .rules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .name }}
  {{- include "coder-k8s.metadata" (dict "root" .root "annotations" .hook) | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ .name }}
subjects:
- kind: ServiceAccount
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
{{- with .localRules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $.name }}
  namespace: {{ $.root.Release.Namespace }}
  {{- include "coder-k8s.metadata" (dict "root" $.root "annotations" $.hook) | nindent 2 }}
rules:
{{ . }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $.name }}
  namespace: {{ $.root.Release.Namespace }}
  {{- include "coder-k8s.metadata" (dict "root" $.root "annotations" $.hook) | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $.name }}
subjects:
- kind: ServiceAccount
  name: {{ $.name }}
  namespace: {{ $.root.Release.Namespace }}
{{- end }}
{{- end }}

{{/* Labels of such a pod. It is no pod of the operator, so that no Service and no Deployment takes it for one. */}}
{{- define "coder-k8s.jobLabels" -}}
app.kubernetes.io/name: coder-k8s-job
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Spec of such a pod. Takes root, name and args. */}}
{{- define "coder-k8s.jobPod" -}}
serviceAccountName: {{ .name }}
restartPolicy: Never
{{- with include "coder-k8s.pullSecrets" .root }}
{{ . }}
{{- end }}
{{- with .root.Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
containers:
- name: coder-k8s
  image: {{ include "coder-k8s.image" .root }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  args:
  {{- toYaml .args | nindent 2 }}
  resources:
    requests: {cpu: 50m, memory: 64Mi}
    limits: {memory: 256Mi}
  {{- with .root.Values.securityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- define "coder-k8s.jobPolicy" -}}
{{- if and .Values.networkPolicy.enabled (not .Values.forKubectl) }}
# What Helm runs asks kube-apiserver, and nobody else.
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: coder-k8s-jobs
  namespace: {{ .Release.Namespace }}
  {{- include "coder-k8s.metadata" (dict "root" .) | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "coder-k8s.jobLabels" . | nindent 6 }}
  policyTypes: [Egress]
  egress:
  - ports:
    - {protocol: UDP, port: 53}
    - {protocol: TCP, port: 53}
    - {protocol: UDP, port: 5353}
    - {protocol: TCP, port: 5353}
  - ports:
    - {protocol: TCP, port: 443}
    - {protocol: TCP, port: 6443}
{{- end }}
{{- end }}
