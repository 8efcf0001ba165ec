//go:build e2e

package monitoring

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "kubectl", args...)
	output, err := command.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
	return string(output)
}

// watch runs kubectl until the test ends.
func watch(t *testing.T, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "kubectl", args...)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	// The context of the test is done before its cleanups run.
	t.Cleanup(func() { _ = command.Wait() })
}

// installMonitoring applies what Prometheus reads the metrics with until the test ends, and returns the ServiceMonitor.
func installMonitoring(t *testing.T) monitoringv1.ServiceMonitor {
	t.Helper()
	objects, err := kubetest.Installation(t.Context(), "monitoring")
	if err != nil {
		t.Fatal(err)
	}
	var monitor monitoringv1.ServiceMonitor
	for _, object := range objects {
		switch kind := object.GetKind(); {
		case kind == "ServiceMonitor":
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &monitor); err != nil {
				t.Fatal(err)
			}
		// The ClusterRole of this name is also for people.
		case object.GetName() == "coder-k8s-metrics-reader" && kind != "ClusterRole":
			file := writeYAML(t, t.TempDir(), "object.yaml", object.Object)
			kubectl(t, "apply", "-f", file)
			t.Cleanup(func() {
				if out, err := exec.Command("kubectl", "delete", "-f", file, "--ignore-not-found").CombinedOutput(); err != nil {
					t.Errorf("kubectl delete: %v\n%s", err, out)
				}
			})
		}
	}
	return monitor
}

// scrapeConfig returns the scrape configuration that the Prometheus Operator generates
// from a ServiceMonitor.
func scrapeConfig(t *testing.T, monitor monitoringv1.ServiceMonitor) map[string]any {
	t.Helper()
	endpoint := monitor.Spec.Endpoints[0]
	verify, credentials := endpoint.TLSConfig, endpoint.Authorization.Credentials
	keep := []map[string]any{{
		"action": "keep", "source_labels": []string{"__meta_kubernetes_endpoint_port_name"}, "regex": endpoint.Port,
	}}
	for label, value := range monitor.Spec.Selector.MatchLabels {
		name := strings.NewReplacer(".", "_", "/", "_", "-", "_").Replace(label)
		keep = append(keep, map[string]any{"action": "keep", "source_labels": []string{"__meta_kubernetes_service_label_" + name}, "regex": value})
	}
	for label, from := range map[string]string{"namespace": "namespace", "pod": "pod_name", "service": "service_name", "job": "service_name", "container": "pod_container_name"} {
		keep = append(keep, map[string]any{"source_labels": []string{"__meta_kubernetes_" + from}, "target_label": label})
	}
	return map[string]any{
		"job_name": monitor.Namespace + "/" + monitor.Name, "metrics_path": endpoint.Path, "scheme": string(*endpoint.Scheme),
		"scrape_interval": "2s", "scrape_timeout": "2s", "honor_labels": endpoint.HonorLabels,
		"authorization": map[string]any{
			"type": endpoint.Authorization.Type, "credentials": secretValue(t, monitor.Namespace, credentials.Name, credentials.Key),
		},
		"tls_config": map[string]any{
			"ca": secretValue(t, monitor.Namespace, verify.CA.Secret.Name, verify.CA.Secret.Key), "server_name": *verify.ServerName,
		},
		"kubernetes_sd_configs": []map[string]any{{
			"role": "endpoints", "kubeconfig_file": os.Getenv("KUBECONFIG"), "namespaces": map[string]any{"names": []string{monitor.Namespace}},
		}},
		"relabel_configs": keep,
	}
}

// secretValue waits until a Secret has a value, and returns it.
func secretValue(t *testing.T, namespace, name, key string) string {
	t.Helper()
	var value string
	polltest.Eventually(t, fmt.Sprintf("Secret %s/%s has %s", namespace, name, key), func() error {
		value = kubectl(t, "-n", namespace, "get", "secret", name, "-o", "go-template={{if .data}}{{with index .data \""+key+"\"}}{{.|base64decode}}{{end}}{{end}}")
		if value == "" {
			return errors.New("it is empty")
		}
		return nil
	})
	return value
}

// A Prometheus that scrapes the operator according to the ServiceMonitor can run every
// query of the alerts and of the dashboard, and queries that always have data return
// data.
func TestQueriesOnTheCluster(t *testing.T) {
	monitor := installMonitoring(t)
	kubectl(t, "apply", "-f", "../../config/samples/codertemplate.yaml")
	watch(t, "-n", "coder", "get", "codertemplates.aggregation.coder.com", "--watch")
	prometheus := startPrometheus(t, map[string]any{
		"global":         map[string]any{"evaluation_interval": "2s"},
		"scrape_configs": []any{scrapeConfig(t, monitor)},
		"rule_files":     []string{writeYAML(t, t.TempDir(), "rules.yaml", rules(t))},
	})
	polltest.Eventually(t, "Prometheus reaches the operator", func() error {
		return prometheus.must(`up{job="coder-k8s-metrics"} == 1`)
	})
	for _, panel := range panels(t) {
		t.Run("panel "+panel.Title, func(t *testing.T) {
			for _, query := range panel.Targets {
				look := func() error { return prometheus.must(forPrometheus(query.Expr)) }
				if panel.mayBeEmpty() {
					look = func() error { _, err := prometheus.series(forPrometheus(query.Expr)); return err }
				}
				polltest.Eventually(t, query.Expr, func() error {
					// Increases the metrics of the aggregated API.
					kubectl(t, "get", "coderworkspaces.aggregation.coder.com", "-n", "coder")
					return look()
				})
			}
		})
	}
	for _, alert := range alerts(t) {
		t.Run("alert "+alert.Alert, func(t *testing.T) {
			if _, err := prometheus.series(alert.Expr.String()); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("rules are evaluated", func(t *testing.T) { prometheus.mustEvaluate(t) })
}

// must runs a query that must have a result.
func (s *server) must(query string) error {
	n, err := s.series(query)
	if err == nil && n == 0 {
		err = fmt.Errorf("no data: %s", query)
	}
	return err
}

// mustEvaluate checks that Prometheus evaluates every rule without an error, and that
// none fires on a healthy installation.
func (s *server) mustEvaluate(t *testing.T) {
	t.Helper()
	var data struct {
		Groups []struct {
			Rules []struct {
				Name, Health, LastError, State string
			} `json:"rules"`
		} `json:"groups"`
	}
	polltest.Eventually(t, "all rules are evaluated", func() error {
		if err := s.data("/api/v1/rules", nil, &data); err != nil {
			return err
		}
		for _, group := range data.Groups {
			for _, rule := range group.Rules {
				if rule.Health != "ok" || rule.State == "firing" {
					return fmt.Errorf("%s: health %s, state %s, %s", rule.Name, rule.Health, rule.State, rule.LastError)
				}
			}
		}
		return nil
	})
	evaluated := 0
	for _, group := range data.Groups {
		evaluated += len(group.Rules)
	}
	if want := len(alerts(t)); evaluated != want {
		t.Errorf("%d rules are evaluated, want %d", evaluated, want)
	}
}

// No port of the operator serves metrics without a token, with or without TLS.
func TestNoMetricsInClearOnTheCluster(t *testing.T) {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		// An attacker would not verify the certificate.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	ports := strings.Fields(kubectl(t, "-n", "coder-system", "get", "pods", "-l", "app.kubernetes.io/name=coder-k8s", "-o",
		"go-template={{range .items}}{{$ip := .status.podIP}}{{range .spec.containers}}{{range .ports}}{{$ip}}:{{.containerPort}} {{end}}{{end}}{{end}}"))
	if len(ports) < 4 {
		t.Fatalf("the operator has only the ports %q", ports)
	}
	for _, port := range ports {
		for _, scheme := range []string{"http", "https"} {
			t.Run(scheme+" "+port, func(t *testing.T) {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, scheme+"://"+port+"/metrics", nil)
				if err != nil {
					t.Fatal(err)
				}
				response, err := client.Do(request)
				if err != nil {
					// The port does not use this protocol.
					return
				}
				defer response.Body.Close()
				content, err := io.ReadAll(response.Body)
				if response.StatusCode == http.StatusOK || strings.Contains(string(content), "# HELP") {
					t.Errorf("%s, %v:\n%.300s", response.Status, err, content)
				}
			})
		}
	}
}
