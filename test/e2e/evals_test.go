//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// evaluation is an eval.yaml of test/evals, whose README describes the fields.
type evaluation struct {
	Caller struct {
		Namespace    string   `json:"namespace"`
		ClusterRoles []string `json:"clusterRoles"`
	} `json:"caller"`
	Calls []struct {
		Tool      string         `json:"tool"`
		Arguments map[string]any `json:"arguments"`
	} `json:"calls"`
	Summary []string        `json:"summary"`
	Reveals []string        `json:"reveals"`
	Hides   []string        `json:"hides"`
	Never   []string        `json:"never"`
	Within  metav1.Duration `json:"within"`
}

// testEvals breaks things and asks the MCP server for the cause. The evals are
// independent of each other, so they run in parallel.
func testEvals(t *testing.T) {
	explain(t, sampleNamespace)
	files, err := filepath.Glob("../evals/*/eval.yaml")
	if err != nil || len(files) < 6 {
		t.Fatalf("there are %d evals: %v", len(files), err)
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			testEval(t, dir)
		})
	}
}

func testEval(t *testing.T, dir string) {
	content, err := os.ReadFile(filepath.Join(dir, "eval.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var e evaluation
	if err := yaml.UnmarshalStrict(content, &e); err != nil {
		t.Fatal(err)
	}
	if task, err := os.ReadFile(filepath.Join(dir, "task.md")); err != nil || len(task) == 0 {
		t.Errorf("there is no task: %v", err)
	}
	t.Cleanup(func() { runEvalScript(t, dir, "mend.sh") })
	runEvalScript(t, dir, "break.sh")
	broken := time.Now()

	// Accounts have the name of their eval, because some are in the same namespace.
	asker := newRobot(t, e.Caller.Namespace, "eval-"+filepath.Base(dir), e.Caller.ClusterRoles...)
	a := asker.connect(t, modernProtocol, asker.throughService(t), newDeeds())
	var told answers
	polltest.Eventually(t, "the cause is named", func() error {
		told = e.ask(t, a)
		return e.missing(told)
	})
	t.Logf("named %.1f s after it was broken (%s are expected), by calls that took %s: %s",
		time.Since(broken).Seconds(), e.Within.Duration, told.took, told.summary)
	all := strings.Join(told.texts, "\n")
	notTold(t, all, e.Hides)
	all += operatorLogs(t)
	notTold(t, all, e.Never)
	noTokenTold(t, all, asker.token)
}

// runEvalScript runs a script of an eval, also after the test has ended.
func runEvalScript(t *testing.T, dir, script string) {
	t.Helper()
	start := time.Now()
	out, err := exec.Command("bash", filepath.Join(dir, script)).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	t.Logf("%s took %.1f s", script, time.Since(start).Seconds())
}

// answers are the results of the calls of an eval.
type answers struct {
	summary string
	texts   []string
	took    time.Duration
}

func (e evaluation) ask(t *testing.T, a *assistant) answers {
	t.Helper()
	var told answers
	start := time.Now()
	for _, call := range e.Calls {
		result := a.callAnywhere(t, call.Tool, call.Arguments)
		told.texts = append(told.texts, words(result))
		if told.summary != "" {
			continue
		}
		told.summary = words(result)
		if answer, ok := result.StructuredContent.(map[string]any); ok && !result.IsError {
			told.summary = field(answer, "summary")
		}
	}
	told.took = time.Since(start).Round(time.Millisecond)
	return told
}

// missing returns an error with the facts that the answers do not contain yet.
func (e evaluation) missing(told answers) error {
	for _, c := range []struct {
		where, text string
		patterns    []string
	}{{"summary", told.summary, e.Summary}, {"answers", strings.Join(told.texts, "\n"), e.Reveals}} {
		for _, pattern := range c.patterns {
			if !regexp.MustCompile(pattern).MatchString(c.text) {
				return fmt.Errorf("the %s does not name %q: %.3000s", c.where, pattern, c.text)
			}
		}
	}
	return nil
}

// notTold fails the test if the answers contain one of the patterns, such as
// secrets.
func notTold(t *testing.T, told string, patterns []string) {
	t.Helper()
	for _, pattern := range patterns {
		if found := regexp.MustCompile(pattern).FindString(told); found != "" {
			t.Errorf("%q is told", found)
		}
	}
}
