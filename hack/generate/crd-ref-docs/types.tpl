{{- /* A template for crd-ref-docs: all types as JSON, which hack/generate/apitypes.go reads. */ -}}
{{- define "gvList" -}}
{{- $types := list -}}
{{- range $group := . -}}
{{- range .SortedTypes -}}
{{- if markdownShouldRenderType . -}}
  {{- $fields := list -}}
  {{- if .GVK -}}
    {{- $fields = list (dict "name" "apiVersion" "type" "string" "doc" (printf "`%s/%s`" .GVK.Group .GVK.Version)) (dict "name" "kind" "type" "string" "doc" (printf "`%s`" .GVK.Kind)) -}}
  {{- end -}}
  {{- range .Members -}}
    {{- $doc := ternary "Refer to Kubernetes API documentation for fields of `metadata`." .Doc (eq .Name "metadata") -}}
    {{- $fields = append $fields (dict "name" .Name "type" (markdownRenderType .Type) "doc" $doc "default" .Default "validation" .Validation) -}}
  {{- end -}}
  {{- $types = append $types (dict "name" .Name "groupVersion" $group.GroupVersionString "doc" .Doc "alias" .IsAlias "fields" $fields) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{ toPrettyJson $types }}
{{ end -}}
