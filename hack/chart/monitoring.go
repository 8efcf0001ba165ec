package main

import (
	"fmt"
	"path/filepath"
	"strings"
)

const (
	// selfManaged is the Secret with the metrics certificate that the operator creates.
	selfManaged = "coder-k8s-metrics-tls"
	// certificateSecret is the Secret with the certificate that is served, from cert-manager or
	// from the operator.
	certificateSecret = `{{ ternary "coder-k8s-metrics-cert" "` + selfManaged + `" (eq .Values.certificates.mode "certManager") }}`
)

// monitoring returns the objects of config/monitoring as templates. Each kind has its own value.
// All objects except rules and dashboard are needed by the ServiceMonitor.
func monitoring(root string) (string, error) {
	objects, err := render(filepath.Join(root, "config", "monitoring"))
	if err != nil {
		return "", err
	}
	values := map[string]string{"PrometheusRule": "prometheusRule", "ConfigMap": "dashboard"}
	var b strings.Builder
	b.WriteString(header)
	for _, o := range objects {
		value := ".Values.monitoring.serviceMonitor"
		if name, ok := values[o.kind()]; ok {
			value = ".Values.monitoring." + name
		}
		labels, annotations := "", ""
		switch o.kind() {
		case "ConfigMap":
			annotations = value + ".annotations"
			fallthrough
		case "PrometheusRule", "ServiceMonitor":
			labels = fmt.Sprintf("(mergeOverwrite %s %s.labels)", dict(entries(o, "metadata", "labels")), value)
		}
		body, err := o.template(labels, annotations)
		if err != nil {
			return "", err
		}
		if o.kind() == "ServiceMonitor" {
			body = strings.ReplaceAll(body, "name: "+selfManaged, "name: "+certificateSecret)
		}
		b.WriteString(document([]string{value + ".enabled"}, body))
	}
	return b.String(), nil
}
