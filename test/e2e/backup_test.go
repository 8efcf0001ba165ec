//go:build e2e

package e2e

import (
	"crypto/rand"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
	"github.com/rclone/gofakes3"
	"github.com/rclone/gofakes3/s3mem"

	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// inDatabase are the rows that a restore must bring back. The operator has another account in each
// control plane.
var inDatabase = map[string]string{
	"users":      `SELECT string_agg(id || ' ' || email, ', ' ORDER BY id) FROM users WHERE username NOT LIKE 'coder-k8s-operator%'`,
	"templates":  `SELECT string_agg(id || ' ' || name || ' ' || active_version_id, ', ' ORDER BY id) FROM templates`,
	"files":      `SELECT string_agg(hash || ' ' || md5(data), ', ' ORDER BY id) FROM files`,
	"workspaces": `SELECT string_agg(id || ' ' || name || ' ' || owner_id, ', ' ORDER BY id) FROM workspaces`,
	"builds":     `SELECT string_agg(id || ' ' || build_number || ' ' || transition, ', ' ORDER BY id) FROM workspace_builds`,
	"schema":     `SELECT version || ' ' || dirty FROM schema_migrations`,
}

func rowsOf(t *testing.T, database string) map[string]string {
	t.Helper()
	rows := map[string]string{}
	for name, statement := range inDatabase {
		if rows[name] = query(t, database, statement); rows[name] == "" {
			t.Errorf("database %s has no %s", database, name)
		}
	}
	return rows
}

// testBackup backs up the Coder of the samples, and restores it into a new control plane with an empty
// database. Then it restores where that must be refused.
func testBackup(t *testing.T) {
	explain(t, sampleNamespace)
	start := time.Now()
	image := os.Getenv("E2E_POSTGRES_IMAGE")
	apply(t, strings.ReplaceAll(sample(t, "coderbackup"), resources.DefaultDatabaseImage, image))
	first := []string{"-n", sampleNamespace, "cbak", "first"}
	waitCondition(t, "Ready", "True", "", first...)
	before := rowsOf(t, "coder")
	t.Logf("backed up in %.1f s\n%s", time.Since(start).Seconds(), kubectl(t, append([]string{"get"}, first...)...))
	backup := get(t, first...)
	for path, want := range map[string]string{
		"phase": "Completed", "directory": "coder/first", "schemaVersion": strings.Fields(before["schema"])[0],
		"coderVersion": field(get(t, "-n", sampleNamespace, "ccp", "coder"), "status", "version"),
	} {
		if got := field(backup, "status", path); got != want {
			t.Errorf("status.%s is %q, not %q", path, got, want)
		}
	}
	if status, _, message := condition(backup, "SelfContained"); status != "True" {
		t.Errorf("SelfContained is %s: %s", status, message)
	}
	files := filepath.Join(volumeOf(t, sampleNamespace, "coder-backups"), "coder", "first")
	if dump, err := os.Stat(filepath.Join(files, "database.dump")); err != nil || fmt.Sprint(dump.Size()) != field(backup, "status", "sizeBytes") {
		t.Errorf("the dump is %v (%v), and the status says %s bytes", dump, err, field(backup, "status", "sizeBytes"))
	}

	start = time.Now()
	restore(t, "restored", "restored")
	waitCondition(t, "Ready", "True", "", "-n", sampleNamespace, "ccp", "restored")
	waitCondition(t, "DatabaseRestored", "True", "Restored", "-n", sampleNamespace, "ccp", "restored")
	t.Logf("restored in %.1f s", time.Since(start).Seconds())
	if diff := cmp.Diff(before, rowsOf(t, "restored")); diff != "" {
		t.Errorf("the restored database is not that of the backup (-backup +restored):\n%s", diff)
	}
	for _, name := range []string{"ctpl/restored.coder.hello", "cws/restored.coder.admin.hello"} {
		polltest.Eventually(t, name+" is served", func() error {
			out, err := tryKubectl(t, "-n", sampleNamespace, "get", name)
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
	}

	// Refusals: a database that is not empty, an older Coder, and a dump that was truncated.
	restore(t, "again", "restored")
	waitCondition(t, "DatabaseRestored", "False", "DatabaseNotEmpty", "-n", sampleNamespace, "ccp", "again")
	again := func(spec string) {
		t.Helper()
		kubectl(t, "-n", sampleNamespace, "patch", "ccp", "again", "--type=merge", "-p", `{"spec":`+spec+`}`)
	}
	secret(t, "again-db", database(t, "empty"))
	again(`{"database":{"secretRef":{"name":"again-db"}},"image":"ghcr.io/coder/coder:v2.20.0"}`)
	waitCondition(t, "DatabaseRestored", "False", "Downgrade", "-n", sampleNamespace, "ccp", "again")
	if err := os.Truncate(filepath.Join(files, "database.dump"), 1000); err != nil {
		t.Error(err)
	}
	again(`{"image":"` + coderImage + `"}`)
	waitCondition(t, "DatabaseRestored", "False", "BackupUnusable", "-n", sampleNamespace, "ccp", "again")
	if tables := query(t, "empty", "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"); tables != "0" {
		t.Errorf("a refused restore left %s tables", tables)
	}
	if diff := cmp.Diff(before, rowsOf(t, "restored")); diff != "" {
		t.Errorf("a refused restore changed the database (-before +now):\n%s", diff)
	}

	kubectl(t, "-n", sampleNamespace, "delete", "ccp", "restored", "again", "--timeout=2m")
	kubectl(t, "-n", sampleNamespace, "delete", "cbak", "first", "--timeout=2m")
	if _, err := os.Stat(files); !os.IsNotExist(err) {
		t.Errorf("the files of the deleted backup are still there: %v", err)
	}
	kubectl(t, "-n", sampleNamespace, "delete", "pvc", "coder-backups", "--timeout=2m")
	kubectl(t, "-n", sampleNamespace, "delete", "secret", "restored-db", "again-db")
}

// testBackupToS3 stores an encrypted backup in a server of S3 on this machine, and restores the files without the CoderBackup,
// like in another cluster.
func testBackupToS3(t *testing.T) {
	explain(t, sampleNamespace)
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	backend, access := s3mem.New(), rand.Text()
	if err := backend.CreateBucket(t.Context(), "backups"); err != nil {
		t.Fatal(err)
	}
	host, _, _ := strings.Cut(os.Getenv("E2E_HOST_IPS"), ",")
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(gofakes3.New(backend, gofakes3.WithV4Auth(map[string]string{"coder": access}), gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	server.Listener = listener
	server.Start()
	defer server.Close()
	keys := func(entries string) {
		t.Helper()
		apply(t, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "backup-s3", "namespace": %q}, "stringData": {"accessKeyID": "coder"%s}}`, sampleNamespace, entries))
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	apply(t, fmt.Sprintf(`{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "e2e-s3", "namespace": %q}, "spec": {"policyTypes": ["Egress"],
		"podSelector": {"matchLabels": {"app.kubernetes.io/name": "coder-backup"}}, "egress": [{"ports": [{"protocol": "TCP", "port": %s}]}]}}`, sampleNamespace, port))
	keys(`, "secretAccessKey": "wrong"`)
	place := fmt.Sprintf("{endpoint: 'http://%s', bucket: backups, prefix: e2e, secretRef: {name: backup-s3}", listener.Addr())
	backup := func(name string) []string {
		t.Helper()
		apply(t, fmt.Sprintf("{apiVersion: coder.com/v1alpha1, kind: CoderBackup, metadata: {name: %s, namespace: %s}, spec: {controlPlaneRef: {name: coder}, image: %s, destination: {s3: %s, ageRecipients: [%s]}}}}",
			name, sampleNamespace, os.Getenv("E2E_POSTGRES_IMAGE"), place, identity.Recipient()))
		return []string{"-n", sampleNamespace, "cbak", name}
	}
	waitCondition(t, "Complete", "False", "BucketUnsuitable", backup("denied")...)
	keys(fmt.Sprintf(`, "secretAccessKey": %q`, access))
	kubectl(t, "-n", sampleNamespace, "delete", "cbak", "denied", "--wait=false")

	start := time.Now()
	waitCondition(t, "Ready", "True", "", backup("offsite")...)
	before := rowsOf(t, "coder")
	t.Logf("backed up to S3 in %.1f s", time.Since(start).Seconds())
	objects := func() string {
		t.Helper()
		list, err := backend.ListBucket(t.Context(), "backups", nil, gofakes3.ListBucketPage{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, object := range list.Contents {
			names = append(names, object.Key)
		}
		return strings.Join(names, " ")
	}
	if got, want := objects(), "e2e/coder/offsite/SHA256SUMS e2e/coder/offsite/database.dump.age e2e/coder/offsite/manifest"; got != want {
		t.Errorf("the objects are %s, want %s", got, want)
	}

	start = time.Now()
	restoreFrom(t, "restored-s3", "restored-s3", "files: {directory: coder/offsite, s3: "+place+"}}, image: "+os.Getenv("E2E_POSTGRES_IMAGE"))
	waitCondition(t, "DatabaseRestored", "False", "BackupUnusable", "-n", sampleNamespace, "ccp", "restored-s3")
	keys(fmt.Sprintf(`, "secretAccessKey": %q, "ageIdentity": %q`, access, identity))
	kubectl(t, "-n", sampleNamespace, "delete", "job", "restored-s3-restore")
	waitCondition(t, "DatabaseRestored", "True", "Restored", "-n", sampleNamespace, "ccp", "restored-s3")
	t.Logf("restored from S3 in %.1f s", time.Since(start).Seconds())
	if diff := cmp.Diff(before, rowsOf(t, "restored-s3")); diff != "" {
		t.Errorf("the restored database is not that of the backup (-backup +restored):\n%s", diff)
	}
	kubectl(t, "-n", sampleNamespace, "delete", "ccp", "restored-s3", "--timeout=2m")
	kubectl(t, "-n", sampleNamespace, "delete", "cbak", "offsite", "denied", "--ignore-not-found", "--timeout=2m")
	if got := objects(); got != "" {
		t.Errorf("after the deletion there is %s", got)
	}
	kubectl(t, "-n", sampleNamespace, "delete", "secret/backup-s3", "secret/restored-s3-db", "networkpolicy/e2e-s3")
}

// restore creates a control plane that restores the backup "first" into a database.
func restore(t *testing.T, name, into string) {
	t.Helper()
	restoreFrom(t, name, into, "name: first")
}

// restoreFrom creates a control plane that restores a backup into a database.
func restoreFrom(t *testing.T, name, into, from string) {
	t.Helper()
	url := databaseURL(into)
	if name == into {
		url = database(t, into)
	}
	secret(t, name+"-db", url)
	manifest := strings.NewReplacer("name: coder\n  namespace", "name: "+name+"\n  namespace", "name: coder-db", "name: "+name+"-db").Replace(withLoadedImage(sample(t, "codercontrolplane")))
	accepted(t, manifest+"  bootstrap:\n    fromBackup: {"+from+"}\n")
}

// secret creates or replaces the Secret with the URL of a database.
func secret(t *testing.T, name, url string) {
	t.Helper()
	apply(t, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": %q, "namespace": %q}, "stringData": {"url": %q}}`, name, sampleNamespace, url))
}

// volumeOf returns the directory of a volume, which is one of this machine.
func volumeOf(t *testing.T, namespace, claim string) string {
	t.Helper()
	volume := field(get(t, "-n", namespace, "pvc", claim), "spec", "volumeName")
	return field(get(t, "pv", volume), "spec", "hostPath", "path")
}
