package monitoring

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

// situation contains the series that Prometheus has scraped, once a minute from
// minute 0 on, and the expected alerts.
type situation struct {
	name string
	// series are in the notation of promtool: "0+60x30" is 0, 60, ... 1800.
	series map[string]string
	// at is the time of the check, as a duration since minute 0.
	at string
	// fires are the labels of each alert that fires at that time, without severity.
	// If it is empty, the alert must not fire.
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

// withoutTexts removes the texts, which promtool would compare word by word.
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
	for _, alert := range alerts(t) {
		t.Run(alert.Alert, func(t *testing.T) {
			t.Parallel()
			fires, quiet := false, false
			for _, s := range all[alert.Alert] {
				fires, quiet = fires || len(s.fires) > 0, quiet || len(s.fires) == 0
			}
			if !fires || !quiet {
				t.Fatalf("there is no situation in which it fires, or none in which it does not: %d in all", len(all[alert.Alert]))
			}
			directory := t.TempDir()
			file := testFile{RuleFiles: []string{writeYAML(t, directory, "rules.yaml", withoutTexts(rules(t)))}, EvaluationInterval: "1m"}
			for _, s := range all[alert.Alert] {
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
	for _, alert := range alerts(t) {
		if known[alert.Alert] {
			t.Errorf("there are two alerts %s", alert.Alert)
		}
		known[alert.Alert] = true
	}
	for name := range all {
		if !known[name] {
			t.Errorf("there is no alert %s", name)
		}
	}
}

// test returns the situation in the format of promtool.
func (s situation) test(alert monitoringv1.Rule) promTests {
	out := promTests{Name: s.name, Interval: "1m"}
	for _, series := range slices.Sorted(maps.Keys(s.series)) {
		out.InputSeries = append(out.InputSeries, promInput{series, s.series[series]})
	}
	look := promAlert{EvalTime: s.at, AlertName: alert.Alert, Expected: []promExpected{}}
	for _, labels := range s.fires {
		with := maps.Clone(labels)
		if with == nil {
			with = map[string]string{}
		}
		with["severity"] = alert.Labels["severity"]
		look.Expected = append(look.Expected, promExpected{Labels: with})
	}
	out.AlertRuleTests = []promAlert{look}
	return out
}

// mustName checks that the texts use only labels that the firing alert has.
func (s situation) mustName(t *testing.T, alert monitoringv1.Rule) {
	t.Helper()
	for _, named := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(alert.Annotations["summary"]+alert.Annotations["description"], -1) {
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

// heading matches the heading of an alert's runbook.
var heading = regexp.MustCompile(`(?m)^### (.*)$`)

// Each alert has a runbook, and the page agrees with the rules.
func TestRunbooks(t *testing.T) {
	content, err := os.ReadFile("../../docs/reference/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(content)
	runbooks := map[string]string{}
	at := heading.FindAllStringSubmatchIndex(page, -1)
	for i, found := range at {
		end := len(page)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		runbooks[page[found[2]:found[3]]] = page[found[1]:end]
	}
	for _, alert := range alerts(t) {
		t.Run(alert.Alert, func(t *testing.T) {
			runbook, severity, link := runbooks[alert.Alert], alert.Labels["severity"], "#"+strings.ToLower(alert.Alert)
			for _, want := range []string{
				fmt.Sprintf("Fires (%s) when this has a result for %s:\n\n```promql\n%s\n```\n", severity, *alert.For, alert.Expr.String()),
				"\nLook at:\n\n```sh\n", "\nDo:\n\n- ",
			} {
				if !strings.Contains(runbook, want) {
					t.Errorf("its runbook does not have %q:\n%s", want, runbook)
				}
			}
			if row := fmt.Sprintf("| [%s](%s) | %s | %s | ", alert.Alert, link, severity, *alert.For); !strings.Contains(page, row) {
				t.Errorf("the table of the page has no row %q", row)
			}
			if url := "https://github.com/coder-k8s/coder-k8s/blob/main/docs/reference/alerts.md" + link; alert.Annotations["runbook_url"] != url {
				t.Errorf("its runbook_url is %q, not %q", alert.Annotations["runbook_url"], url)
			}
			if !slices.Contains([]string{"critical", "warning", "info"}, severity) {
				t.Errorf("its severity is %q", severity)
			}
			if summary := alert.Annotations["summary"]; summary == "" || len(summary) > 120 || alert.Annotations["description"] == "" {
				t.Errorf("its summary has %d characters and its description %d: %s", len(summary), len(alert.Annotations["description"]), summary)
			}
		})
		delete(runbooks, alert.Alert)
	}
	for name := range runbooks {
		t.Errorf("the page has a runbook for %q, which is no alert", name)
	}
}
