//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	_ "github.com/lib/pq" // The driver of PostgreSQL.

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// kubectl runs kubectl and fails the test if it fails.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := tryKubectl(t, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// tryKubectl runs kubectl and returns its standard output, or both outputs if it fails.
func tryKubectl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return kubectlInput(t, "", args...)
}

// kubectlInput is tryKubectl with a manifest on standard input.
func kubectlInput(t *testing.T, input string, args ...string) (string, error) {
	t.Helper()
	stdout, stderr, err := runKubectl(t, input, args...)
	if err != nil {
		return stdout + stderr, err
	}
	return stdout, nil
}

// kubectlBoth returns both outputs of kubectl; warnings are in the second.
func kubectlBoth(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return runKubectl(t, "", args...)
}

func runKubectl(t *testing.T, input string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	// Longer than every --timeout, so that kubectl itself reports what did not happen.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "kubectl", args...)
	cmd.Stdin = strings.NewReader(input)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// apply applies a manifest given as text.
func apply(t *testing.T, manifest string) {
	t.Helper()
	if out, err := kubectlInput(t, manifest, "apply", "-f", "-"); err != nil {
		t.Fatalf("kubectl apply: %v\n%s\n%s", err, out, manifest)
	}
}

// accepted applies a manifest until it succeeds: a Coder that was just added or
// replaced cannot be reached immediately.
func accepted(t *testing.T, manifest string) {
	t.Helper()
	polltest.Eventually(t, "the manifest is accepted", func() error {
		out, err := kubectlInput(t, manifest, "apply", "-f", "-")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// getWithKubectl is get for arguments that only kubectl supports.
func getWithKubectl(t *testing.T, args ...string) (object map[string]any) {
	t.Helper()
	polltest.Eventually(t, "kubectl get "+strings.Join(args, " "), func() error {
		object = nil
		out, err := tryKubectl(t, append([]string{"get", "-o", "json", "--ignore-not-found"}, args...)...)
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		if strings.TrimSpace(out) == "" {
			return nil
		}
		return json.Unmarshal([]byte(out), &object)
	})
	return object
}

// condition returns status, reason and message of a condition of an object.
func condition(object map[string]any, conditionType string) (status, reason, message string) {
	st, _ := object["status"].(map[string]any)
	list, _ := st["conditions"].([]any)
	for _, entry := range list {
		c, _ := entry.(map[string]any)
		if c["type"] == conditionType {
			return fmt.Sprint(c["status"]), fmt.Sprint(c["reason"]), fmt.Sprint(c["message"])
		}
	}
	return "", "", ""
}

// field returns the value at a path of an object as text, or "" if there is none.
func field(object map[string]any, path ...string) string {
	var value any = object
	for _, p := range path {
		m, _ := value.(map[string]any)
		value = m[p]
	}
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

// waitCondition waits until a condition of an object has a status, and a reason if it
// is not empty, and returns its message.
func waitCondition(t *testing.T, conditionType, status, reason string, args ...string) string {
	t.Helper()
	var message string
	what := fmt.Sprintf("%s %s=%s %s", strings.Join(args, " "), conditionType, status, reason)
	polltest.Eventually(t, what, func() error {
		object := get(t, args...)
		if object == nil {
			return fmt.Errorf("%s does not exist", strings.Join(args, " "))
		}
		gotStatus, gotReason, m := condition(object, conditionType)
		message = m
		if gotStatus != status || (reason != "" && gotReason != reason) {
			return fmt.Errorf("condition %s is %q, reason %q: %s", conditionType, gotStatus, gotReason, m)
		}
		return nil
	})
	return message
}

// database creates an empty database and returns its URL for pods.
func database(t *testing.T, name string) string {
	t.Helper()
	query(t, "postgres", fmt.Sprintf("DROP DATABASE IF EXISTS %q WITH (FORCE)", name))
	query(t, "postgres", fmt.Sprintf("CREATE DATABASE %q", name))
	return databaseURL(name)
}

// databaseURL returns the URL of a database on the test's server.
func databaseURL(name string) string {
	base, options, _ := strings.Cut(os.Getenv("E2E_POSTGRES_URL"), "?")
	return strings.TrimSuffix(base, "/") + "/" + name + "?" + options
}

// openDatabase returns connections to a database. The caller closes them.
func openDatabase(t *testing.T, name string) *sql.DB {
	t.Helper()
	db, err := sql.Open("postgres", databaseURL(name))
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// query runs one SQL statement and returns its only value, or "" if it has none. Its connection does
// not stay open, because tests stop the server and drop databases.
func query(t *testing.T, database, statement string) string {
	t.Helper()
	db := openDatabase(t, database)
	defer db.Close()
	return queryOn(t, db, statement)
}

func queryOn(t *testing.T, db *sql.DB, statement string) string {
	t.Helper()
	var value sql.NullString
	if err := db.QueryRowContext(t.Context(), statement).Scan(&value); err != nil && !errors.Is(err, sql.ErrNoRows) {
		t.Fatalf("%s: %v", statement, err)
	}
	return value.String
}

// inURL returns an IP address as it is in a URL: one of IPv6 has brackets.
func inURL(address string) string {
	if strings.Contains(address, ":") {
		return "[" + address + "]"
	}
	return address
}

// namespace creates a namespace that is deleted when the test ends.
func namespace(t *testing.T, name string) {
	t.Helper()
	kubectl(t, "create", "namespace", name)
	t.Cleanup(func() {
		cleanup("delete", "namespace", name, "--wait=false", "--ignore-not-found")
	})
}

// postgresPort is the port of the test's server.
func postgresPort() string {
	address, err := url.Parse(os.Getenv("E2E_POSTGRES_URL"))
	if err != nil {
		return ""
	}
	return address.Port()
}

// clusterScriptAfter runs one of the scripts of the cluster after a test.
func clusterScriptAfter(script string, args ...string) {
	if out, err := exec.Command("../../hack/cluster/"+script, args...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s %s: %v\n%s", script, strings.Join(args, " "), err, out)
	}
}

// cleanup runs kubectl after a test, when the test's context is done.
func cleanup(args ...string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "kubectl", args...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// explain prints the state of the cluster if the test has failed.
func explain(t *testing.T, namespaces ...string) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		show := func(args ...string) {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			out, _ := exec.CommandContext(ctx, "kubectl", args...).CombinedOutput()
			t.Logf("$ kubectl %s\n%s", strings.Join(args, " "), out)
		}
		show("get", "pods", "-A", "-o", "wide")
		show("get", "codercontrolplanes", "-A", "-o", "yaml")
		show("get", "apiservice", "v1alpha1.aggregation.coder.com", "-o", "yaml")
		for _, ns := range append(namespaces, "coder-system") {
			show("-n", ns, "get", "events", "--sort-by=.lastTimestamp")
			show("-n", ns, "get", "coderworkspaces,codertemplates", "-o", "yaml")
		}
		show("-n", "coder-system", "logs", "deploy/coder-k8s", "--tail=150")
		show("-n", "coder-system", "logs", "deploy/coder-k8s", "--previous", "--tail=50")
		for _, ns := range namespaces {
			show("-n", ns, "logs", "-l", "app.kubernetes.io/name=coder-control-plane", "--tail=80")
		}
	})
}
