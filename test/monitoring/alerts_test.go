package monitoring

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"

	"github.com/coder-k8s/coder-k8s/internal/monitoring"
)

// situation is what Prometheus has scraped, from minute 0 on and once a minute, and
// what then is so.
type situation struct {
	name string
	// series are in the notation of promtool: "0+60x30" is 0, 60, ... 1800.
	series map[string]string
	// at is when to look, as a duration since minute 0.
	at string
	// fires are the labels of each alert that fires then, without severity. None
	// means that it must not fire.
	fires []map[string]string
}

// The files below are those of promtool.
type (
	testFile struct {
		RuleFiles          []string    `json:"rule_files"`
		EvaluationInterval string      `json:"evaluation_interval"`
		Tests              []promTests `json:"tests"`
	}
	promTests struct {
		Name           string      `json:"name"`
		Interval       string      `json:"interval"`
		InputSeries    []promInput `json:"input_series"`
		AlertRuleTests []promAlert `json:"alert_rule_test"`
	}
	promInput struct {
		Series string `json:"series"`
		Values string `json:"values"`
	}
	promAlert struct {
		EvalTime  string         `json:"eval_time"`
		AlertName string         `json:"alertname"`
		Expected  []promExpected `json:"exp_alerts"`
	}
	promExpected struct {
		Labels map[string]string `json:"exp_labels"`
	}
)

// rules are those of the generated manifest.
func rules(t *testing.T) monitoringv1.PrometheusRuleSpec {
	t.Helper()
	content, err := os.ReadFile("../../config/monitoring/prometheusrule.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var object monitoringv1.PrometheusRule
	if err := yaml.UnmarshalStrict(content, &object); err != nil {
		t.Fatal(err)
	}
	return object.Spec
}

// withoutTexts leaves out what promtool would compare word by word.
func withoutTexts(spec monitoringv1.PrometheusRuleSpec) monitoringv1.PrometheusRuleSpec {
	for _, group := range spec.Groups {
		for i := range group.Rules {
			group.Rules[i].Annotations = nil
		}
	}
	return spec
}

func writeYAML(t *testing.T, directory, name string, content any) string {
	t.Helper()
	encoded, err := yaml.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(directory, name)
	if err := os.WriteFile(path, encoded, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Each alert fires when it should, and not when it should not.
func TestAlerts(t *testing.T) {
	promtool := tool(t, "promtool")
	all := situations()
	for _, alert := range monitoring.Alerts() {
		t.Run(alert.Name, func(t *testing.T) {
			t.Parallel()
			fires, quiet := false, false
			for _, s := range all[alert.Name] {
				fires, quiet = fires || len(s.fires) > 0, quiet || len(s.fires) == 0
			}
			if !fires || !quiet {
				t.Fatalf("there is no situation in which it fires, or none in which it does not: %d in all", len(all[alert.Name]))
			}
			directory := t.TempDir()
			file := testFile{RuleFiles: []string{writeYAML(t, directory, "rules.yaml", withoutTexts(rules(t)))}, EvaluationInterval: "1m"}
			for _, s := range all[alert.Name] {
				file.Tests = append(file.Tests, s.test(alert))
				s.mustName(t, alert)
			}
			path := writeYAML(t, directory, "test.yaml", file)
			output, err := exec.CommandContext(t.Context(), promtool, "test", "rules", "--ignore-unknown-fields", path).CombinedOutput()
			if err != nil {
				t.Errorf("%v:\n%s", err, output)
			}
		})
	}
	known := map[string]bool{}
	for _, alert := range monitoring.Alerts() {
		if known[alert.Name] {
			t.Errorf("there are two alerts %s", alert.Name)
		}
		known[alert.Name] = true
	}
	for name := range all {
		if !known[name] {
			t.Errorf("there is no alert %s", name)
		}
	}
}

// test is the situation as promtool wants it.
func (s situation) test(alert monitoring.Alert) promTests {
	out := promTests{Name: s.name, Interval: "1m"}
	for _, series := range slices.Sorted(maps.Keys(s.series)) {
		out.InputSeries = append(out.InputSeries, promInput{series, s.series[series]})
	}
	look := promAlert{EvalTime: s.at, AlertName: alert.Name, Expected: []promExpected{}}
	for _, labels := range s.fires {
		with := maps.Clone(labels)
		if with == nil {
			with = map[string]string{}
		}
		with["severity"] = string(alert.Severity)
		look.Expected = append(look.Expected, promExpected{Labels: with})
	}
	out.AlertRuleTests = []promAlert{look}
	return out
}

// mustName sees that the texts name no label that an alert which fires does not have.
func (s situation) mustName(t *testing.T, alert monitoring.Alert) {
	t.Helper()
	for _, named := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(alert.Summary+alert.Description, -1) {
		for _, labels := range s.fires {
			if _, has := labels[named[1]]; !has && named[1] != "instance" {
				t.Errorf("%s: the texts name the label %s, and the alert has only %v", s.name, named[1], labels)
			}
		}
	}
}

func TestPromtoolAcceptsTheRules(t *testing.T) {
	output, err := exec.CommandContext(t.Context(), tool(t, "promtool"), "check", "rules", "--lint=all", "--lint-fatal", writeYAML(t, t.TempDir(), "rules.yaml", rules(t))).CombinedOutput()
	if err != nil {
		t.Errorf("%v:\n%s", err, output)
	}
}

// What a person reads when called is there, and says something of its own.
func TestAlertsHaveWhatPeopleNeed(t *testing.T) {
	for _, alert := range monitoring.Alerts() {
		t.Run(alert.Name, func(t *testing.T) {
			for what, text := range map[string]string{
				"summary": alert.Summary, "description": alert.Description, "for": alert.For, "meaning": alert.Runbook.Means,
				"look": fmt.Sprint(len(alert.Runbook.Look) > 0), "do": fmt.Sprint(len(alert.Runbook.Do) > 0),
			} {
				if text == "" || text == "false" {
					t.Errorf("it has no %s", what)
				}
			}
			switch alert.Severity {
			case monitoring.Critical, monitoring.Warning, monitoring.Info:
			default:
				t.Errorf("its severity is %q", alert.Severity)
			}
			if len(alert.Summary) > 120 {
				t.Errorf("its summary has %d characters: %s", len(alert.Summary), alert.Summary)
			}
		})
	}
}
