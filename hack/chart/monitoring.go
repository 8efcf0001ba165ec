package main

import (
	"fmt"
	"path/filepath"
	"strings"
)

const (
	// selfManaged is the Secret of the metrics' certificate that the operator makes.
	selfManaged = "coder-k8s-metrics-tls"
	// certificateSecret is the one that is served, whoever made it.
	certificateSecret = `{{ ternary "coder-k8s-metrics-cert" "` + selfManaged + `" (eq .Values.certificates.mode "certManager") }}`
)

// monitoring gives what config/monitoring adds, each kind for a value of its own. What
// is neither rules nor dashboard is needed by the ServiceMonitor.
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
