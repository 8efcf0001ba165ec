//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const (
	aggregatedAPI = "/apis/aggregation.coder.com/v1alpha1/namespaces/" + sampleNamespace
	helloPath     = aggregatedAPI + "/coderworkspaces/coder.admin.hello"
)

// written counts the objects in Coder's database: builds, versions, archives,
// workspaces and templates. If the counts are unchanged, nothing was written to Coder.
func written(t *testing.T) string {
	t.Helper()
	return query(t, "coder", `SELECT (SELECT count(*) FROM workspace_builds) || ' builds, ' ||
		(SELECT count(*) FROM template_versions) || ' versions, ' || (SELECT count(*) FROM files) || ' archives, ' ||
		(SELECT count(*) FROM workspaces WHERE NOT deleted) || ' workspaces, ' ||
		(SELECT count(*) FROM templates WHERE NOT deleted) || ' templates'`)
}

// sample reads a manifest of config/samples.
func sample(t *testing.T, name string) string {
	t.Helper()
	manifest, err := os.ReadFile("../../config/samples/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(manifest)
}

// withLoadedImage replaces the image for users by the one that the cluster has: only
// versions of Coder in the Go module proxy can be built.
func withLoadedImage(text string) string {
	return strings.ReplaceAll(text, resources.DefaultImage, coderImage)
}

// version returns the resourceVersion of an object.
func version(t *testing.T, args ...string) string {
	t.Helper()
	return field(get(t, args...), "metadata", "resourceVersion")
}

// asked returns the part of an object that users write. Unlike the resourceVersion it
// does not change with the status.
func asked(t *testing.T, args ...string) string {
	t.Helper()
	out := kubectl(t, append([]string{"get", "-o",
		"jsonpath={..spec} {..metadata.labels} {..metadata.annotations} {..metadata.finalizers} {..metadata.deletionTimestamp}"}, args...)...)
	if !strings.HasPrefix(out, "{") {
		t.Fatalf("kubectl shows no spec of %s: %q", strings.Join(args, " "), out)
	}
	return out
}

// number parses a resourceVersion: as text, 9 would sort after 10.
func number(t *testing.T, version string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		t.Fatalf("the resourceVersion is %q", version)
	}
	return n
}

// testKubectl uses kubectl with a workspace and a template as with any other object.
func testKubectl(t *testing.T) {
	explain(t, sampleNamespace)
	client := login(t, sampleNamespace, "coder")
	hello := []string{"-n", sampleNamespace, "cws", "coder.admin.hello"}

	t.Run("watch", func(t *testing.T) {
		workspace := buildStatus(t, client, "admin", "hello", "stopped")
		w := watch(t, "cws", "coder.admin.hello")
		polltest.Eventually(t, "the watch shows it stopped", w.shows("coder.admin.hello", "Stopped"))
		build(t, client, workspace, "start")
		polltest.Eventually(t, "the watch shows the start that was made in Coder", w.shows("coder.admin.hello", "Running"))
	})
	t.Run("wait", func(t *testing.T) {
		kubectl(t, "-n", sampleNamespace, "wait", "--for=condition=Ready", "cws/coder.admin.hello", "ctpl/coder.hello", "--timeout=5m")
		kubectl(t, "-n", sampleNamespace, "wait", "--for=jsonpath={.status.phase}=Running", "cws/coder.admin.hello", "--timeout=5m")
	})
	t.Run("diff and dry run", testDiffAndDryRun)
	t.Run("applied twice", testAppliedTwice)
	t.Run("labels last", testLabelsLast)
	t.Run("scale", func(t *testing.T) {
		kubectl(t, "-n", sampleNamespace, "scale", "cws", "coder.admin.hello", "--replicas=0")
		buildStatus(t, client, "admin", "hello", "stopped")
		waitCondition(t, "Ready", "True", "Stopped", hello...)
		kubectl(t, "-n", sampleNamespace, "scale", "cws", "coder.admin.hello", "--replicas=1", "--current-replicas=0")
		buildStatus(t, client, "admin", "hello", "running")
		waitCondition(t, "Ready", "True", "Running", hello...)
	})
	t.Run("start, stop and restart, with their logs", func(t *testing.T) { testActions(t, client) })
	t.Run("tables", testTables)
	t.Run("delete", func(t *testing.T) { testDelete(t, client) })
}

// testDiffAndDryRun checks that both show the resulting object, and write nothing to
// Coder.
func testDiffAndDryRun(t *testing.T) {
	before, at := written(t), asked(t, "-n", sampleNamespace, "cws/coder.admin.hello", "ctpl/coder.hello")
	if out, err := tryKubectl(t, "diff", "-f", "../../config/samples/coderworkspace.yaml"); err != nil {
		t.Errorf("there is a difference where nothing differs: %v\n%s", err, out)
	}
	stopped := strings.Replace(sample(t, "coderworkspace"), "running: true", "running: false", 1)
	if out, err := kubectlInput(t, stopped, "diff", "-f", "-"); err == nil || !containsAll(out, "-  running: true", "+  running: false") {
		t.Errorf("kubectl diff of a stop: %v\n%s", err, out)
	}
	changed := strings.Replace(sample(t, "codertemplate"), "it shows builds", "it shows many builds", 1)
	if out, err := kubectlInput(t, changed, "diff", "-f", "-"); err == nil || !strings.Contains(out, "it shows many builds") {
		t.Errorf("kubectl diff of another file: %v\n%s", err, out)
	}
	if out, err := kubectlInput(t, changed, "apply", "--server-side", "--field-manager=dry", "--force-conflicts", "--dry-run=server", "-f", "-"); err != nil {
		t.Errorf("a dry server-side apply: %v\n%s", err, out)
	}
	if out, err := kubectlInput(t, secondWorkspace, "create", "--dry-run=server", "-f", "-"); err != nil {
		t.Errorf("a dry creation: %v\n%s", err, out)
	}
	if out, err := kubectlInput(t, strings.Replace(secondWorkspace, "templateName: hello", "templateName: nowhere", 1), "create", "--dry-run=server", "-f", "-"); err == nil ||
		!containsAll(out, "spec.templateName", `"nowhere"`) {
		t.Errorf("a dry creation from a template that is not there: %v\n%s", err, out)
	}
	kubectl(t, "-n", sampleNamespace, "scale", "cws", "coder.admin.hello", "--replicas=0", "--dry-run=server")
	kubectl(t, "-n", sampleNamespace, "delete", "cws/coder.admin.hello", "--dry-run=server")
	if after := written(t); after != before {
		t.Errorf("before the dry runs Coder has %s, after them %s", before, after)
	}
	if now := asked(t, "-n", sampleNamespace, "cws/coder.admin.hello", "ctpl/coder.hello"); now != at {
		t.Errorf("something was written: it was %s, and is %s", at, now)
	}
}

// testAppliedTwice applies the samples client-side and server-side: the second time
// nothing is written, neither to the API nor to Coder.
func testAppliedTwice(t *testing.T) {
	// The workspace first: a new version of its template changes the workspace too,
	// which the operator detects up to ten seconds later.
	for _, sample := range [][2]string{{"coderworkspace", "cws/coder.admin.hello"}, {"codertemplate", "ctpl/coder.hello"}} {
		path, object := "../../config/samples/"+sample[0]+".yaml", sample[1]
		kubectl(t, "apply", "-f", path)
		kubectl(t, "-n", sampleNamespace, "wait", "--for=condition=Ready", object, "--timeout=5m")
		for _, way := range [][]string{{"apply", "-f", path}, {"apply", "--server-side", "--field-manager=e2e", "--force-conflicts", "-f", path}} {
			appliedAgain(t, object, way)
		}
		managers := kubectl(t, "-n", sampleNamespace, "get", object, "--show-managed-fields", "-o", "jsonpath={.metadata.managedFields[*].manager}")
		// kubectl migrates the fields from client-side to server-side apply.
		if !strings.Contains(managers, "e2e") {
			t.Errorf("the managers of the fields of %s are %q", object, managers)
		}
	}
}

// appliedAgain applies the same manifest again. Changes that Coder makes after a build
// may update the object in between, but not every time.
func appliedAgain(t *testing.T, object string, way []string) {
	t.Helper()
	kubectl(t, way...)
	command, before := "kubectl "+strings.Join(way, " "), written(t)
	polltest.Eventually(t, command+" once more changes nothing", func() error {
		at := version(t, "-n", sampleNamespace, object)
		out := kubectl(t, way...)
		if len(way) == 3 && !strings.Contains(out, "unchanged") {
			t.Errorf("%s once more: %s", command, out)
		}
		if now := version(t, "-n", sampleNamespace, object); now != at {
			return fmt.Errorf("resourceVersion %s, then %s", at, now)
		}
		return nil
	})
	if after := written(t); after != before {
		t.Errorf("%s once more: Coder had %s, and has %s", command, before, after)
	}
}

// testLabelsLast kills all replicas at the same time: the metadata that Coder does not
// store is still there afterwards, and no resourceVersion goes back.
func testLabelsLast(t *testing.T) {
	for _, object := range []string{"cws/coder.admin.hello", "ctpl/coder.hello"} {
		kubectl(t, "-n", sampleNamespace, "label", object, "example.com/team=platform", "--overwrite")
		kubectl(t, "-n", sampleNamespace, "annotate", object, "example.com/note=two words", "--overwrite")
	}
	at := version(t, "-n", sampleNamespace, "cws", "coder.admin.hello")
	kubectl(t, "-n", "coder-system", "delete", "pod", "-l", operatorLabel, "--grace-period=0", "--force")
	serving(t)
	listed(t, "coder.admin.hello")
	// kube-apiserver answers 503 by itself for a moment if it notices late that the old pod has gone.
	read := func(args ...string) (out string) {
		polltest.Eventually(t, "kubectl get "+args[0], func() (err error) {
			out, err = tryKubectl(t, append([]string{"-n", sampleNamespace, "get"}, args...)...)
			return err
		})
		return out
	}
	for _, kind := range []string{"cws", "ctpl"} {
		out := read(kind, "-l", "example.com/team=platform", "-o", `jsonpath={.items[*].metadata.name} {.items[*].metadata.annotations.example\.com/note}`)
		if !strings.HasSuffix(out, "hello two words") {
			t.Errorf("after all replicas were killed %s with the label are %q", kind, out)
		}
	}
	managers := read("cws/coder.admin.hello", "--show-managed-fields", "-o", "jsonpath={.metadata.managedFields[*].manager}")
	if !strings.Contains(managers, "e2e") {
		t.Errorf("after all replicas were killed the managers of the fields are %q", managers)
	}
	if now := version(t, "-n", sampleNamespace, "cws", "coder.admin.hello"); number(t, now) < number(t, at) {
		t.Errorf("the resourceVersion went back from %s to %s", at, now)
	}
}

// post posts an empty object to a subresource of the sample workspace.
func post(t *testing.T, subresource string) {
	t.Helper()
	if out, err := kubectlInput(t, "{}", "create", "--raw", helloPath+"/"+subresource, "-f", "-"); err != nil {
		t.Fatalf("POST %s: %v %s", subresource, err, out)
	}
}

// testActions starts with a running workspace, and leaves it running.
func testActions(t *testing.T, client *coderd.Client) {
	begun := buildStatus(t, client, "admin", "hello", "running").LatestBuild.Number
	followed := func(subresource, want string) {
		post(t, subresource)
		start := time.Now()
		log := kubectl(t, "get", "--raw", helloPath+"/log?follow=true")
		t.Logf("%s: the log came to its end after %.1f s with %d lines", subresource, time.Since(start).Seconds(), strings.Count(log, "\n"))
		if !strings.Contains(log, want) {
			t.Errorf("the log of the %s does not have %q:\n%s", subresource, want, log)
		}
	}
	followed("stop", "Apply complete!")
	stopped := buildStatus(t, client, "admin", "hello", "stopped")
	followed("start", "Apply complete!")
	buildStatus(t, client, "admin", "hello", "running")
	post(t, "restart")
	var number int32
	polltest.Eventually(t, "it was stopped and started", func() error {
		workspace, err := client.WorkspaceByName(t.Context(), "admin", "hello")
		if err != nil {
			return err
		}
		if number = workspace.LatestBuild.Number; number != begun+4 || workspace.LatestBuild.Status != "running" {
			return fmt.Errorf("build %d is %s", number, workspace.LatestBuild.Status)
		}
		return nil
	})
	if stopped.LatestBuild.Number != begun+1 {
		t.Errorf("the stop was build %d, after %d", stopped.LatestBuild.Number, begun)
	}
	waitCondition(t, "Ready", "True", "Running", "-n", sampleNamespace, "cws", "coder.admin.hello")
}

func testTables(t *testing.T) {
	if out := kubectl(t, "get", "coder", "-A"); !containsAll(out, "coderworkspace.aggregation.coder.com/coder.admin.hello", "codertemplate.aggregation.coder.com/coder.hello") {
		t.Errorf("kubectl get coder -A does not show the workspace and its template:\n%s", out)
	}
	for kind, columns := range map[string]struct{ names, more string }{
		"cws":  {"NAME OWNER TEMPLATE STATUS HEALTH OUTDATED AGE", "WORKSPACE ORGANIZATION CONTROL PLANE VERSION AUTOSTOP LAST USED REASON"},
		"ctpl": {"NAME DISPLAY NAME STATUS ACTIVE VERSION DEPRECATED AGE", "TEMPLATE ORGANIZATION CONTROL PLANE LATEST VERSION LATEST STATUS UPDATED REASON"},
	} {
		for wide, want := range map[string]string{"": columns.names, "-owide": columns.names + " " + columns.more} {
			args := []string{"-n", sampleNamespace, "get", kind}
			if wide != "" {
				args = append(args, wide)
			}
			header, _, _ := strings.Cut(kubectl(t, args...), "\n")
			if got := strings.Join(strings.Fields(header), " "); got != want {
				t.Errorf("kubectl %s has the columns\n%s, not\n%s", strings.Join(args, " "), got, want)
			}
		}
	}
}

// testDelete deletes with kubectl: the command returns when the workspace is deleted in
// Coder, and prints only that.
func testDelete(t *testing.T, client *coderd.Client) {
	for _, way := range []string{"at once", "while another waits"} {
		apply(t, secondWorkspace)
		waitCondition(t, "Ready", "True", "Running", "-n", sampleNamespace, "cws", "coder.admin.second")
		start := time.Now()
		if way != "at once" {
			kubectl(t, "-n", sampleNamespace, "delete", "cws", "coder.admin.second", "--wait=false")
			kubectl(t, "-n", sampleNamespace, "wait", "--for=delete", "cws/coder.admin.second", "--timeout=5m")
		} else if out, noise, err := kubectlBoth(t, "-n", sampleNamespace, "delete", "cws", "coder.admin.second", "--timeout=5m"); err != nil || noise != "" {
			t.Errorf("kubectl delete: %v\n%s%s", err, out, noise)
		}
		t.Logf("deleted %s after %.1f s", way, time.Since(start).Seconds())
		if _, err := client.WorkspaceByName(t.Context(), "admin", "second"); !coderd.IsNotFound(err) {
			t.Errorf("%s: kubectl came back, and the workspace is still in Coder: %v", way, err)
		}
	}
}
