//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// backUpEtcd copies the data of etcd while etcd is paused.
const backUpEtcd = etcdData + `
kill -STOP $etcd
rm -rf "$data.backup"
cp -a "$data" "$data.backup"
kill -CONT $etcd
`

const etcdData = `
set -eu
etcd=$(pidof etcd)
data=$(tr '\0' '\n' </proc/$etcd/cmdline | sed -n '/^--data-dir$/{n;p}')
`

// restoreEtcd replaces the data of etcd by that copy, and starts etcd and kube-apiserver again, as the documentation of Kubernetes
// requires. The shell that starts etcd again is paused meanwhile.
const restoreEtcd = etcdData + `
loop=$(ps -o ppid= -p $etcd)
kill -STOP $loop
kill -KILL $etcd
rm -rf "$data"
mv "$data.backup" "$data"
kill -CONT $loop
kill -KILL $(pidof kube-apiserver)
`

// mostRecordRequests limits the requests for records to kube-apiserver from its start until all is in order. Without a
// limit for the attempts of a write there were 55,000 in two seconds.
const mostRecordRequests = 2000

const etcdWorkspace = `{"apiVersion": "aggregation.coder.com/v1alpha1", "kind": "CoderWorkspace",
	"metadata": {"name": "coder.admin.%s", "namespace": "coder"},
	"spec": {"organization": "coder", "templateName": "hello", "running": true}}`

// testEtcdRestored restores etcd from a backup while two replicas run. They notice it, start again, and compare the
// records with Coder. Nothing in Coder changes because of the old records.
func testEtcdRestored(t *testing.T) {
	explain(t, sampleNamespace)
	scaleOperator(t, 2)
	t.Cleanup(func() { cleanup("-n", "coder-system", "scale", "deploy/coder-k8s", "--replicas=1") })
	label := func(value string) {
		t.Helper()
		kubectl(t, "-n", sampleNamespace, "label", "cws", "coder.admin.hello", "example.com/etcd="+value, "--overwrite")
	}
	accepted(t, fmt.Sprintf(etcdWorkspace, "removed"))
	waitCondition(t, "Ready", "True", "", "-n", sampleNamespace, "cws", "coder.admin.removed")
	label("before")
	nodeShell(t, "bash", "-c", backUpEtcd)

	accepted(t, fmt.Sprintf(etcdWorkspace, "created"))
	waitCondition(t, "Ready", "True", "", "-n", sampleNamespace, "cws", "coder.admin.created")
	kubectl(t, "-n", sampleNamespace, "delete", "cws", "coder.admin.removed", "--timeout=2m")
	for i := range 5 {
		label(fmt.Sprint("after-", i))
	}
	created := field(get(t, "-n", sampleNamespace, "cws", "coder.admin.created"), "metadata", "uid")
	heartbeatsSince(t, field(get(t, "-n", sampleNamespace, "cws", "coder.admin.hello"), "metadata", "resourceVersion"))
	builds := query(t, "coder", `SELECT count(*) FROM workspace_builds`)
	restarts, err := restartsOf(t.Context())
	if err != nil || len(restarts) != 2 {
		t.Fatalf("the restarts of two replicas are %v: %v", restarts, err)
	}

	restored := time.Now()
	nodeShell(t, "bash", "-c", restoreEtcd)
	polltest.Eventually(t, "both replicas started again", func(ctx context.Context) error {
		now, err := restartsOf(ctx)
		if err != nil {
			return err
		}
		for pod, before := range restarts {
			if now[pod] == "" || now[pod] == before {
				return fmt.Errorf("the restarts are %v, and were %v", now, restarts)
			}
		}
		return nil
	})
	t.Logf("both replicas started again within %.1f s", time.Since(restored).Seconds())
	polltest.Eventually(t, "the objects are those of Coder, with the labels of the backup", func() error {
		out, err := tryKubectl(t, "-n", sampleNamespace, "get", "cws", "-L", "example.com/etcd")
		switch {
		case err != nil:
			return errors.Join(err, errors.New(out))
		case strings.Contains(out, "coder.admin.removed"), !strings.Contains(out, "coder.admin.created"), !strings.Contains(out, "before"):
			return errors.New(out)
		}
		return nil
	})
	t.Logf("all is in order after %.1f s", time.Since(restored).Seconds())
	if now := field(get(t, "-n", sampleNamespace, "cws", "coder.admin.created"), "metadata", "uid"); now != created {
		t.Errorf("the uid of a workspace that the backup does not have was %s and is %s", created, now)
	}
	if now := query(t, "coder", `SELECT count(*) FROM workspace_builds`); now != builds {
		t.Errorf("Coder had %s builds and has %s", builds, now)
	}
	label("again")
	serving(t)
	sampleReady(t)
	requests := recordRequests(t)
	t.Logf("%d requests for records since kube-apiserver started", requests)
	if requests > mostRecordRequests {
		t.Error("these are too many")
	}
}

// heartbeatsSince waits until each replica has written a heartbeat after a resource version. It shows the replica that
// a backup from before was restored. A replica without requests writes one a minute.
func heartbeatsSince(t *testing.T, since string) {
	t.Helper()
	number := func(version string) uint64 {
		n, err := strconv.ParseUint(version, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	polltest.Eventually(t, "each replica has written a heartbeat", func(ctx context.Context) error {
		records, err := tryList(ctx, "-n", "coder-system", "coderworkspacerecords")
		if err != nil {
			return err
		}
		versions := map[string]string{}
		for _, record := range records {
			versions[field(record, "metadata", "name")] = field(record, "metadata", "resourceVersion")
		}
		replicas, err := restartsOf(ctx)
		if err != nil {
			return err
		}
		for pod := range replicas {
			version := versions["heartbeat-"+pod]
			if version == "" || number(version) <= number(since) {
				return fmt.Errorf("the records since %s are: %v", since, versions)
			}
		}
		return nil
	})
}

// restartsOf returns how often the container of each of the operator's pods was restarted.
func restartsOf(ctx context.Context) (map[string]string, error) {
	restarts := map[string]string{}
	pods, err := tryList(ctx, "-n", "coder-system", "pods", "-l", operatorLabel)
	for _, pod := range pods {
		status, _ := pod["status"].(map[string]any)
		containers, _ := status["containerStatuses"].([]any)
		name := field(pod, "metadata", "name")
		if len(containers) == 0 {
			return nil, fmt.Errorf("pod %s has no container yet", name)
		}
		container, _ := containers[0].(map[string]any)
		restarts[name] = field(container, "restartCount")
	}
	return restarts, err
}

// recordRequests returns how many requests for records kube-apiserver has received since it started.
func recordRequests(t *testing.T) (n int) {
	t.Helper()
	for line := range strings.Lines(kubectl(t, "get", "--raw", "/metrics")) {
		if strings.HasPrefix(line, "apiserver_request_total{") && strings.Contains(line, `group="internal.coder.com"`) {
			var count int
			if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &count); err == nil {
				n += count
			}
		}
	}
	return n
}
