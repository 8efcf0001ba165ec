//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// olderCoders are the releases from which Coder is upgraded, one after the other, to that of the tests.
var olderCoders = []string{"2.29.1", "2.30.0"}

// testCoderUpgrade upgrades Coder by changing spec.image, while a workspace runs and clients
// watch: through all older releases that were built, from the oldest. It starts and ends without
// objects. Nothing is reported as deleted, and what users and the operator stored is as before. Before that,
// an upgrade that fails after the migration is taken back.
func testCoderUpgrade(t *testing.T) {
	explain(t, sampleNamespace)
	older := loadOlderCoders(t)
	kubectl(t, "create", "namespace", sampleNamespace)
	kubectl(t, "-n", sampleNamespace, "create", "secret", "generic", "coder-db", "--from-literal=url="+database(t, "first"))
	kubectl(t, "-n", sampleNamespace, "create", "secret", "generic", "coder-db-2", "--from-literal=url="+database(t, "coder"))
	accepted(t, strings.ReplaceAll(withLoadedImage(sample(t, "codercontrolplane")), coderImage, older[0]))
	waitCondition(t, "Ready", "True", "", "-n", sampleNamespace, "ccp", "coder")
	accepted(t, sample(t, "codertemplate"))
	waitCondition(t, "Ready", "True", "", "-n", sampleNamespace, "ctpl", "coder.hello")
	apply(t, strings.Replace(sample(t, "coderworkspace"), "running: true", "running: false\n  ttlMillis: 7200000", 1))
	waitCondition(t, "Ready", "True", "Stopped", "-n", sampleNamespace, "cws", "coder.admin.hello")
	live := liveWorkspace(t, "live")
	kubectl(t, "-n", sampleNamespace, "label", "cws", live, "example.com/team=platform")

	pod := func() string {
		return kubectl(t, "-n", sampleNamespace, "get", "pods", "-l", "com.coder.workspace.name=live", "-o",
			"jsonpath={range .items[*]}{.metadata.uid} restarted {.status.containerStatuses[0].restartCount}{end}")
	}
	scheduleBackups(t)
	before, runs := keptOf(t), pod()
	if runs == "" {
		t.Fatal("the workspace has no pod")
	}
	seen := watchAll(t, "coderworkspaces", "codertemplates")
	revertedWithRestore(t, older[0])
	compareStates(t, before, keptOf(t))
	inCoder := heldInCoder(t)
	for i, image := range append(older[1:], coderImage) {
		_, want, _ := strings.Cut(image, ":")
		session := follow(t, "coder", "exec", "-n", sampleNamespace, live, "--", "sh", "-c", "echo begun; sleep 600")
		polltest.Eventually(t, "a session is open", session.shows("begun"))
		start := time.Now()
		kubectl(t, "-n", sampleNamespace, "patch", "ccp", "coder", "--type=merge", "-p", `{"spec":{"image":"`+image+`"}}`)
		polltest.Eventually(t, "Coder is "+want, func(ctx context.Context) error {
			workspaces, err := tryList(ctx, "-n", sampleNamespace, "cws")
			templates, otherErr := tryList(ctx, "-n", sampleNamespace, "ctpl")
			if err := errors.Join(err, otherErr); err != nil || len(workspaces)+len(templates) != 4 {
				t.Errorf("on the way to %s there are %d workspaces and %d templates: %v", want, len(workspaces), len(templates), err)
			}
			plane := get(t, "-n", sampleNamespace, "ccp", "coder")
			if stalled, reason, message := condition(plane, "Stalled"); stalled == "True" {
				t.Errorf("on the way to %s the control plane is stalled: %s: %s", want, reason, message)
			}
			ready, reason, _ := condition(plane, "Ready")
			if version := field(plane, "status", "version"); ready != "True" || !strings.HasPrefix(version, want) {
				return fmt.Errorf("version %q, Ready %q (%s)", version, ready, reason)
			}
			return nil
		})
		t.Logf("from %s to %s in %.1f s", older[i], want, time.Since(start).Seconds())
		// It may survive: its connection is made again if both ends reach the new Coder soon enough.
		t.Logf("the session has ended: %t; it wrote %q", session.hasEnded() == nil, session.text())
		name := backedUp(t, "Completed")
		t.Logf("%s", coderGives(t, 0, "Completed for", "", "upgrade", "status", "-n", sampleNamespace))
		_, from, _ := strings.Cut(older[i], ":")
		if version := field(get(t, "-n", sampleNamespace, "cbak", name), "status", "coderVersion"); !strings.HasPrefix(version, from) {
			t.Errorf("the backup is that of Coder %s, want %s", version, from)
		}
		waitCondition(t, "AgentsConnected", "True", "", "-n", sampleNamespace, "cws", live)
		// The condition may be that of before the upgrade, while the agent connects again.
		polltest.Eventually(t, "a command runs in the workspace with Coder "+want, func() error {
			if stdout, stderr, code := coder(t, "exec", "-n", sampleNamespace, live, "--", "echo", "still here"); stdout != "still here\n" {
				return fmt.Errorf("exit code %d, it wrote %q: %s", code, stdout, stderr)
			}
			return nil
		})
		if now := pod(); now != runs {
			t.Errorf("with %s the pod of the workspace is %s, and was %s", want, now, runs)
		}
		compareStates(t, before, keptOf(t))
		if diff := cmp.Diff(inCoder, heldInCoder(t)); diff != "" {
			t.Errorf("%s has something else (-before +now):\n%s", want, diff)
		}
	}
	seen.nothingDeleted(t)

	kubectl(t, "-n", sampleNamespace, "patch", "cws", "coder.admin.hello", "--type=merge", "-p", `{"spec":{"running":true}}`)
	waitCondition(t, "Ready", "True", "Running", "-n", sampleNamespace, "cws", "coder.admin.hello")
	kubectl(t, "-n", sampleNamespace, "delete", "cws", "--all", "--timeout=5m")
	kubectl(t, "-n", sampleNamespace, "delete", "ctpl", "--all", "--timeout=5m")
	removeBackups(t)
	kubectl(t, "-n", sampleNamespace, "delete", "ccp", "coder", "--timeout=5m")
	kubectl(t, "delete", "namespace", sampleNamespace, "--timeout=5m")
}

// revertedWithRestore upgrades Coder, from database "first", to a release that migrates it and then ends, because of a variable that only
// this release reads. It takes that back: the old image runs with the backup, in database "coder".
func revertedWithRestore(t *testing.T, image string) {
	t.Helper()
	start, inDatabase := time.Now(), rowsOf(t, "first")
	change := func(spec string) {
		t.Helper()
		kubectl(t, "-n", sampleNamespace, "patch", "ccp", "coder", "--type=merge", "-p", `{"spec":{`+spec+`}}`)
	}
	change(`"image":"` + coderImage + `","extraEnv":[{"name":"CODER_AI_GATEWAY_PROVIDER_0_TYPE","value":"none"}]`)
	message := waitCondition(t, "Stalled", "True", "UpgradeFailed", "-n", sampleNamespace, "ccp", "coder")
	t.Logf("the upgrade that migrates and then fails has stopped after %.1f s: %s", time.Since(start).Seconds(), message)
	if !containsAll(message, "kubectl coder upgrade revert", "from schema") {
		t.Errorf("the message is %s", message)
	}
	coderGives(t, 1, "Failed for", "", "upgrade", "status", "-n", sampleNamespace)
	coderGives(t, 2, "", "is that of the migrated database", "upgrade", "revert", "-n", sampleNamespace, "--database-secret", "coder-db", "--yes")
	start = time.Now()
	coderGives(t, 0, "The backup is being restored", "", "upgrade", "revert", "-n", sampleNamespace, "--database-secret", "coder-db-2", "--yes")
	_, version, _ := strings.Cut(image, ":")
	polltest.Eventually(t, "Coder is "+version+" again", func() error {
		plane := get(t, "-n", sampleNamespace, "ccp", "coder")
		if ready, reason, message := condition(plane, "Ready"); ready != "True" || !strings.HasPrefix(field(plane, "status", "version"), version) {
			return fmt.Errorf("version %s, Ready=%s %s: %s", field(plane, "status", "version"), ready, reason, message)
		}
		return nil
	})
	t.Logf("the old Coder runs with the restored database after %.1f s", time.Since(start).Seconds())
	if diff := cmp.Diff(inDatabase, rowsOf(t, "coder")); diff != "" {
		t.Errorf("the restored database has other rows (-before +now):\n%s", diff)
	}
	change(`"extraEnv":null`)
	waitCondition(t, "Ready", "True", "", "-n", sampleNamespace, "ccp", "coder")
}

// loadOlderCoders loads the images of the older Coders that were built, and of a workspace with the
// agent of the oldest, into the node. It returns the names of the former, the oldest first. The test
// is skipped if there are none.
func loadOlderCoders(t *testing.T) (images []string) {
	t.Helper()
	name, workspace := strings.Split(coderImage, ":")[0], strings.Split(os.Getenv("E2E_WORKSPACE_IMAGE"), ":")[0]
	var files, missing []string
	for _, version := range olderCoders {
		file := func(image string) string { return filepath.Join(os.Getenv("E2E_IMAGES"), image+"-"+version+".tar") }
		if _, err := os.Stat(file("workspace")); err != nil || name+":v"+version == coderImage {
			missing = append(missing, version)
			continue
		}
		if len(images) == 0 {
			files = append(files, file("workspace"))
			t.Setenv("E2E_WORKSPACE_IMAGE", workspace+":"+version)
		}
		images, files = append(images, name+":v"+version), append(files, file("coder"))
	}
	if len(images) == 0 {
		t.Skipf("NOT TESTED: the upgrade of Coder from %s: not built: make coder CODER_VERSION=%s", strings.Join(missing, " and "), missing[0])
	}
	if len(missing) > 0 {
		t.Logf("NOT TESTED: the upgrade of Coder from %s: not built: make coder CODER_VERSION=%[1]s", strings.Join(missing, " and "))
	}
	clusterScript(t, "load-image.sh", files...)
	return images
}

// keptOf returns the state of the objects that an upgrade of Coder does not change: all but the
// control plane and the pods.
func keptOf(t *testing.T) map[string]string {
	t.Helper()
	state := stateOf(t)
	maps.DeleteFunc(state, func(name, _ string) bool {
		return slices.Contains([]string{"CoderControlPlane", "Deployment", "ReplicaSet", "Pod"}, strings.Split(name, "/")[1])
	})
	return state
}

// scheduleBackups creates a suspended schedule, from which upgrades take their backups.
func scheduleBackups(t *testing.T) {
	t.Helper()
	claim, _, _ := strings.Cut(sample(t, "coderbackup"), "\n---\n")
	apply(t, claim)
	schedule := strings.Replace(sample(t, "coderbackupschedule"), "  keepLast: 7", "  suspend: true", 1)
	apply(t, strings.Replace(schedule, "  template:\n", "  template:\n    image: "+os.Getenv("E2E_POSTGRES_IMAGE")+"\n", 1))
}

func removeBackups(t *testing.T) {
	t.Helper()
	kubectl(t, "-n", sampleNamespace, "delete", "cbaks", "--all", "--timeout=2m")
	kubectl(t, "-n", sampleNamespace, "delete", "cbak", "--all", "--timeout=2m")
	kubectl(t, "-n", sampleNamespace, "delete", "pvc", "coder-backups", "--timeout=2m")
}

// backedUp waits for the end of an upgrade, and returns the name of its complete backup.
func backedUp(t *testing.T, phase string) string {
	t.Helper()
	status := "False"
	if phase == "Completed" {
		status = "True"
	}
	waitCondition(t, "Upgraded", status, "Upgrade"+phase, "-n", sampleNamespace, "ccp", "coder")
	name := field(get(t, "-n", sampleNamespace, "ccp", "coder"), "status", "upgrade", "backup")
	waitCondition(t, "Complete", "True", "", "-n", sampleNamespace, "cbak", name)
	return name
}

// testUpgradeTakenBack upgrades Coder to images that do not work: those that cannot be pulled or contain another version
// stop no pod. From one whose server ends at once, the old Coder comes back with all that it had. No image is tried again.
func testUpgradeTakenBack(t *testing.T) {
	explain(t, sampleNamespace)
	repository, _, _ := strings.Cut(coderImage, ":")
	mistagged, broken := repository+":v2.98.0", repository+":v2.99.0"
	nodeShell(t, "ctr", "-n", "k8s.io", "images", "tag", "--force", coderImage, mistagged)
	clusterScript(t, "load-image.sh", filepath.Join(os.Getenv("E2E_IMAGES"), "broken-coder.tar"))
	scheduleBackups(t)
	before, inDatabase, inCoder := keptOf(t), rowsOf(t, "coder"), heldInCoder(t)
	seen := watchAll(t, "coderworkspaces", "codertemplates")
	pods := func() string {
		return kubectl(t, "-n", sampleNamespace, "get", "pods", "-l", "app.kubernetes.io/name=coder-control-plane", "-o", "jsonpath={.items[*].metadata.uid}")
	}
	var start time.Time
	wants := func(image string) {
		t.Helper()
		start = time.Now()
		kubectl(t, "-n", sampleNamespace, "patch", "ccp", "coder", "--type=merge", "-p", `{"spec":{"image":"`+image+`"}}`)
	}
	for image, why := range map[string]string{repository + ":v2.97.0": "cannot be pulled", mistagged: "is not the version in its tag"} {
		running := pods()
		wants(image)
		polltest.Eventually(t, "the image is refused", func() bool {
			_, reason, message := condition(get(t, "-n", sampleNamespace, "ccp", "coder"), "Upgraded")
			return reason == "UpgradeReverted" && strings.Contains(message, image) && strings.Contains(message, why)
		})
		t.Logf("image %s is refused after %.1f s", image, time.Since(start).Seconds())
		if now := pods(); now != running {
			t.Errorf("the pods were %s and are %s, for an image that %s", running, now, why)
		}
	}
	waitsForBackup(t, broken, wants, pods)
	waitsForDestination(t, func() { wants(broken) }, pods)
	start = time.Now()
	waitCondition(t, "Upgraded", "False", "UpgradeMigrating", "-n", sampleNamespace, "ccp", "coder")
	t.Logf("the old Coder is stopped and backed up after %.1f s", time.Since(start).Seconds())
	waitCondition(t, "Upgraded", "False", "UpgradeReverted", "-n", sampleNamespace, "ccp", "coder")
	t.Logf("the old Coder is back after %.1f s", time.Since(start).Seconds())
	waitCondition(t, "Stalled", "True", "UpgradeReverted", "-n", sampleNamespace, "ccp", "coder")
	waitCondition(t, "DeploymentAvailable", "True", "", "-n", sampleNamespace, "ccp", "coder")
	backedUp(t, "Reverted")
	if got := sampleImage(t); got != coderImage {
		t.Errorf("the image is %s", got)
	}
	coderGives(t, 1, "Reverted for", "", "upgrade", "status", "-n", sampleNamespace)
	coderGives(t, 4, "UpgradeReverted", "", "status", "-n", sampleNamespace, "--installation=false")
	compareStates(t, before, keptOf(t))
	if diff := cmp.Diff(inDatabase, rowsOf(t, "coder")); diff != "" {
		t.Errorf("the database has other rows (-before +now):\n%s", diff)
	}
	if diff := cmp.Diff(inCoder, heldInCoder(t)); diff != "" {
		t.Errorf("Coder has something else (-before +now):\n%s", diff)
	}
	seen.nothingDeleted(t)
	wants(coderImage)
	sampleReady(t)
	removeBackups(t)
}

// waitsForBackup begins an upgrade whose backup another tool makes: the old pods serve until the command of the message names
// it. Then the image is set back.
func waitsForBackup(t *testing.T, image string, wants func(string), pods func() string) {
	t.Helper()
	policy := func(text string) {
		kubectl(t, "-n", sampleNamespace, "patch", "ccp", "coder", "--type=merge", "-p", `{"spec":{"upgrade":`+text+`}}`)
	}
	policy(`{"backup":"External"}`)
	running := pods()
	wants(image)
	waitCondition(t, "Upgraded", "False", "UpgradeWaitingForBackup", "-n", sampleNamespace, "ccp", "coder")
	waitCondition(t, "Stalled", "True", "UpgradeWaitingForBackup", "-n", sampleNamespace, "ccp", "coder")
	coderGives(t, 0, "WaitingForBackup for", "", "upgrade", "status", "-n", sampleNamespace)
	if now := pods(); now != running {
		t.Errorf("the pods were %s and are %s, while the upgrade waits for a backup", running, now)
	}
	_, _, message := condition(get(t, "-n", sampleNamespace, "ccp", "coder"), "Upgraded")
	_, command, found := strings.Cut(message, "kubectl annotate ")
	if !found {
		t.Fatalf("the message names no command: %q", message)
	}
	kubectl(t, append([]string{"annotate"}, strings.Fields(strings.Replace(command, "/NAME", "/before", 1))...)...)
	waitCondition(t, "Upgraded", "False", "UpgradeMigrating", "-n", sampleNamespace, "ccp", "coder")
	if got := field(get(t, "-n", sampleNamespace, "ccp", "coder"), "status", "upgrade", "externalBackup"); got != "before" {
		t.Errorf("status.upgrade.externalBackup is %q", got)
	}
	wants(coderImage)
	sampleReady(t)
	policy("null")
	kubectl(t, "-n", sampleNamespace, "annotate", "ccp", "coder", "coder.com/upgrade-backup-")
}

// waitsForDestination begins an upgrade whose backup has no volume: the old pods serve until the schedule names one that exists.
func waitsForDestination(t *testing.T, begin func(), pods func() string) {
	t.Helper()
	claim := func(name string) {
		kubectl(t, "-n", sampleNamespace, "patch", "cbaks", "nightly", "--type=merge", "-p",
			`{"spec":{"template":{"destination":{"persistentVolumeClaim":{"claimName":"`+name+`"}}}}}`)
	}
	claim("missing")
	running, start := pods(), time.Now()
	begin()
	message := waitCondition(t, "Upgraded", "False", "BackupUnavailable", "-n", sampleNamespace, "ccp", "coder")
	t.Logf("the missing volume is named after %.1f s: %s", time.Since(start).Seconds(), message)
	if !strings.Contains(message, `PersistentVolumeClaim "missing" does not exist`) {
		t.Errorf("the message is %q", message)
	}
	waitCondition(t, "Stalled", "True", "", "-n", sampleNamespace, "ccp", "coder")
	coderGives(t, 1, "BackupDestination", "", "upgrade", "plan", "-n", sampleNamespace)
	if now := pods(); now != running {
		t.Errorf("the pods were %s and are %s, while the backup has no volume", running, now)
	}
	claim("coder-backups")
}
