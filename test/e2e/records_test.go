//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// compact removes all revisions of etcd except the newest, and frees the space.
const compact = `
set -eu
etcd() { curl -sS --fail --max-time 60 "http://127.0.0.1:2379/v3/kv/$1" -d "$2"; }
revision=$(etcd range '{"key":"AA=="}' | sed -n 's/.*"revision":"\([0-9]*\)".*/\1/p')
etcd compaction "{\"revision\":\"$revision\",\"physical\":true}"
`

// halfSpeed pauses a program for half of each second, twenty times.
const halfSpeed = `
for i in $(seq 20); do
  kill -STOP $(pidof "$1"); sleep 0.5
  kill -CONT $(pidof "$1"); sleep 0.5
done
`

// testStorageFaults restarts, compacts and slows down the storage of the records, while
// clients read, watch and write. No acknowledged write is lost, and no deletion is
// reported.
func testStorageFaults(t *testing.T) {
	explain(t, sampleNamespace)
	for _, fault := range []struct {
		name    string
		within  time.Duration
		command []string
	}{
		{"etcd is compacted", afterKill, []string{"bash", "-c", compact}},
		{"etcd is killed", afterKill, []string{"bash", "-c", "kill -KILL $(pidof etcd)"}},
		// On a busy machine, kube-apiserver alone needs a minute to start.
		{"kube-apiserver is killed", 3 * afterKill, []string{"bash", "-c", "kill -KILL $(pidof kube-apiserver)"}},
		{"kube-apiserver is slow", afterKill, []string{"bash", "-c", halfSpeed, "-", "kube-apiserver"}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			s := newStream(t)
			s.follow(t, throughKubernetes(t))
			s.write(t, 20)
			s.writeMeanwhile(func() { nodeShell(t, fault.command...) })
			s.writeUntil(t, polltest.Timeout())
			s.end(t, fault.within)
			serving(t)
		})
	}
}

// testRecordsByHand checks that only the operator may write records. If a user removes
// that policy and writes records nevertheless, nothing in Coder is lost.
func testRecordsByHand(t *testing.T) {
	explain(t, sampleNamespace)
	record := []string{"-n", sampleNamespace, "coderworkspacerecord", "coder.admin.hello"}
	damage := append([]string{"patch"}, append(record, "--type=merge", "-p", `{"spec":{"object":"{\"metadata\":"}}`)...)
	remove := append([]string{"delete"}, record...)
	for _, change := range [][]string{damage, remove} {
		if out, err := tryKubectl(t, change...); err == nil || !strings.Contains(out, "only the operator writes records") {
			t.Fatalf("kubectl %s: %v %s", strings.Join(change, " "), err, out)
		}
	}
	const binding = "validatingadmissionpolicybinding/coder-k8s-records"
	manifest := filepath.Join(t.TempDir(), "binding.json")
	applied := kubectl(t, "get", binding, "-o", "jsonpath={.metadata.annotations.kubectl\\.kubernetes\\.io/last-applied-configuration}")
	if err := os.WriteFile(manifest, []byte(applied), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cleanup("apply", "-f", manifest) })
	kubectl(t, "delete", binding)

	uid, builds := field(get(t, "-n", sampleNamespace, "cws", "coder.admin.hello"), "metadata", "uid"), buildsOfHello(t)
	seen := watchAll(t, "coderworkspaces")
	// kube-apiserver sees the deletion of the binding with a delay.
	polltest.Eventually(t, "the record can be written", func() error { return ran(tryKubectl(t, damage...)) })
	damaged := time.Now()
	polltest.Eventually(t, "the record is whole again", func() error {
		if text := field(get(t, record...), "spec", "object"); !strings.HasSuffix(text, "}") {
			return fmt.Errorf("it is %q", text)
		}
		return nil
	})
	t.Logf("a damaged record was repaired after %.1f s", time.Since(damaged).Seconds())
	if got := field(get(t, "-n", sampleNamespace, "cws", "coder.admin.hello"), "metadata", "uid"); got != uid {
		t.Errorf("the UID is %q, not %q", got, uid)
	}
	seen.nothingDeleted(t)

	removed := time.Now()
	kubectl(t, remove...)
	polltest.Eventually(t, "the workspace is back", func() error {
		if got := field(get(t, "-n", sampleNamespace, "cws", "coder.admin.hello"), "metadata", "uid"); got != uid {
			return fmt.Errorf("the UID is %q, not %q", got, uid)
		}
		return nil
	})
	t.Logf("a workspace whose record was removed was back after %.1f s", time.Since(removed).Seconds())
	if now := buildsOfHello(t); now != builds {
		t.Errorf("Coder has built it %s times, not %s", now, builds)
	}
}

func buildsOfHello(t *testing.T) string {
	t.Helper()
	return query(t, "coder", `SELECT count(*) FROM workspace_builds WHERE workspace_id IN (SELECT id FROM workspaces WHERE name = 'hello')`)
}

// ran returns the error of a command with its output.
func ran(out string, err error) error {
	if err != nil {
		return errors.Join(err, errors.New(strings.TrimSpace(out)))
	}
	return nil
}
