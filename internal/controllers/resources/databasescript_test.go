package resources

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// script is a run of database.sh with programs that act like those of PostgreSQL.
type script struct {
	t   *testing.T
	dir string
	env map[string]string
}

// The programs answer like a database of Coder, unless a variable says something else.
const (
	fakePsql = `#!/bin/sh
cp "$PGSERVICEFILE" "$SEEN"
echo "$*" >>"$ARGUMENTS"
[ -z "$DOWN" ] || { printf '%b\n' "${SAYS:-connection refused}" >&2; exit 2; }
case "$*" in
  *--file=-*) cat >"$RESTORED.all"; if grep -q '^COMMIT;$' "$RESTORED.all"; then cp "$RESTORED.all" "$RESTORED"; fi ;;
  *obj_description*) if [ -e "$RESTORED" ]; then sed -n "s/^COMMENT ON TABLE schema_migrations IS '\(.*\)';$/\1/p" "$RESTORED"; fi ;;
  *server_version_num*) echo "${SERVER:-150004}" ;;
  *server_version*) echo 15.4 ;;
  *schema_migrations*) echo "${SCHEMA-512}" ;;
  *dbcrypt_keys*) echo "${KEYS:-0}" ;;
  *pg_class*) echo "${TABLES:-0}" ;;
esac`
	fakeDump = `#!/bin/sh
case "$1" in --version) echo "pg_dump (PostgreSQL) 15.18 (Debian 15.18-0)"; exit ;; esac
echo "$*" >>"$ARGUMENTS"
[ -z "$FULL" ] || { echo "could not write: No space left on device" >&2; exit 1; }
for a; do case "$a" in --file=*) echo "the dump" >"${a#--file=}" ;; esac; done`
	fakeRestore = `#!/bin/sh
echo "$*" >>"$ARGUMENTS"
case "$*" in
  --list*) echo "1; 0 1 COMMENT - SCHEMA public x"; echo "2; 0 2 TABLE DATA public users coder" ;;
  *--file=-*) echo "SET transaction_timeout = 0;"; cat "$WORK/list"; [ -z "$CUT" ] || { echo "unexpected end of file" >&2; exit 1; } ;;
esac`
)

func newScript(t *testing.T) *script {
	t.Helper()
	dir := t.TempDir()
	s := &script{t: t, dir: dir, env: map[string]string{
		"WORK": dir + "/work", "BACKUPS": dir + "/backups", "RESULT": dir + "/result", "SEEN": dir + "/seen", "ARGUMENTS": dir + "/arguments", "RESTORED": dir + "/restored",
		"PATH": dir + "/bin:" + os.Getenv("PATH"), "CODER_PG_CONNECTION_URL": "postgres://coder:geheim@db:5432/coder?sslmode=disable",
		"BACKUP_UID": "uid-1", "BACKUP_DIRECTORY": "coder/first", "BACKUP_NAMESPACE": "coder", "BACKUP_NAME": "first",
		"BACKUP_CONTROL_PLANE": "coder", "BACKUP_CODER_VERSION": "v2.36.1+abc", "RESTORE_IMAGE_VERSION": "v2.36.1",
	}}
	for _, name := range []string{"work", "backups", "bin"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"psql": fakePsql, "pg_dump": fakeDump, "pg_restore": fakeRestore} {
		if err := os.WriteFile(filepath.Join(dir, "bin", name), []byte(text), 0o755); err != nil { // #nosec G306 -- it is a program.
			t.Fatal(err)
		}
	}
	return s
}

// run runs a mode. It returns the exit code and the result.
func (s *script) run(mode DatabaseJobMode, env ...string) (int, string) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), "/bin/sh", "-c", databaseScript, "database.sh", string(mode))
	for name, value := range s.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	if strings.Contains(string(out)+s.read("result")+s.read("arguments"), "geheim") {
		s.t.Errorf("the password is exposed: %s", out)
	}
	return cmd.ProcessState.ExitCode(), s.read("result")
}

func (s *script) read(name string) string {
	raw, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Fatal(err)
	}
	return string(raw)
}

func (s *script) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *script) mustWork(mode DatabaseJobMode, env ...string) string {
	s.t.Helper()
	code, result := s.run(mode, env...)
	if code != 0 {
		s.t.Fatalf("%s ended with %d: %s", mode, code, result)
	}
	return result
}

func (s *script) mustFail(code int, reason, says string, mode DatabaseJobMode, env ...string) {
	s.t.Helper()
	got, result := s.run(mode, env...)
	if got != code || !strings.HasPrefix(result, "reason="+reason+"\nmessage=") || !strings.Contains(result, says) {
		s.t.Errorf("%s %q ended with %d, %q; want %d, %s with %q", mode, env, got, result, code, reason, says)
	}
	if s.read("restored") != "" {
		s.t.Errorf("%s %q restored something", mode, env)
	}
}

func TestScriptWritesServiceFile(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://coder:geheim@db:5432/coder?sslmode=disable":      "password=geheim user=coder host=db port=5432 dbname=coder sslmode=disable",
		"postgresql://db/coder":                                      "host=db dbname=coder",
		"postgres://a%40b:p%2Fw%25%3Ageheim@db.example.com/c%20d":    "password=p/w%:geheim user=a@b host=db.example.com dbname=c d",
		"postgres://u:g@eheim@[2001:db8::1]:6432/coder":              "password=g@eheim user=u host=2001:db8::1 port=6432 dbname=coder",
		"postgres://u@a:1,b:2/coder?target_session_attrs=read-write": "user=u host=a,b port=1,2 dbname=coder target_session_attrs=read-write",
		"postgres://u:%C3%BCgeheim@/coder?host=%2Frun%2Fpostgres":    "password=ügeheim user=u dbname=coder host=/run/postgres",
		"postgres://u@db/coder?binary_parameters=yes&search_path=x":  "user=u host=db dbname=coder options=-csearch_path=x",
	} {
		s := newScript(t)
		s.mustWork(ModeBackup, "CODER_PG_CONNECTION_URL="+url)
		if got := strings.ReplaceAll(strings.TrimPrefix(strings.TrimSpace(s.read("seen")), "[coder]\n"), "\n", " "); got != want {
			t.Errorf("%s\nis    %s\nnot   %s", url, got, want)
		}
	}
	s := newScript(t)
	s.mustFail(3, "DatabaseUnsuitable", "must begin with postgres://", ModeBackup, "CODER_PG_CONNECTION_URL=host=db password=geheim")
	s.mustFail(3, "DatabaseUnsuitable", "CODER_PG_AUTH is awsiamrds", ModeBackup, "CODER_PG_AUTH=awsiamrds")
}

func TestScriptBacksUpRestoresAndDeletes(t *testing.T) {
	s := newScript(t)
	result := s.mustWork(ModeBackup, "KEYS=2")
	const want = "coderVersion=v2.36.1+abc\nschemaVersion=512\npostgresVersion=15.4\nencryptionKeys=2\nsize=9\nsha256="
	if !strings.HasPrefix(result, want) {
		t.Errorf("the result is %q", result)
	}
	if again := s.mustWork(ModeBackup, "DOWN=1"); again != result {
		t.Errorf("a second pod reports %q, and the first %q", again, result)
	}
	s.mustFail(3, "VolumeUnsuitable", "has other files in the directory coder/first", ModeBackup, "BACKUP_UID=uid-2")

	if restored := s.mustWork(ModeRestore); restored != result {
		t.Errorf("the restore reports %q, and the backup %q", restored, result)
	}
	if list := s.read("restored"); !strings.Contains(list, "users") || strings.Contains(list, "COMMENT -") {
		t.Errorf("restored was %q", list)
	}

	if list := s.read("restored"); !strings.HasPrefix(list, "BEGIN;\n") || strings.Contains(list, "transaction_timeout") {
		t.Errorf("restored was %q", list)
	}
	// The pod died after the commit, and before it reported.
	if restored := s.mustWork(ModeRestore, "TABLES=7"); restored != result {
		t.Errorf("the next pod reports %q, and the backup %q", restored, result)
	}
	if code, other := s.run(ModeRestore, "TABLES=7", "BACKUP_UID=uid-2"); code != 3 || !strings.Contains(other, "DatabaseNotEmpty") {
		t.Errorf("the restore of another control plane ended with %d, %q", code, other)
	}

	s.mustWork(ModeDelete, "BACKUP_UID=uid-2")
	if s.read("backups/coder/first/manifest") == "" {
		t.Error("the files of another backup were deleted")
	}
	s.mustWork(ModeDelete)
	if left, err := os.ReadDir(s.dir + "/backups"); err != nil || len(left) > 0 {
		t.Errorf("after the deletion there is %v (%v)", left, err)
	}
}

func TestScriptRefusesToBackUp(t *testing.T) {
	s := newScript(t)
	s.mustFail(1, "DatabaseUnreachable", "connection refused", ModeBackup, "DOWN=1")
	s.mustFail(3, "ClientTooOld", "PostgreSQL 15, and the server is PostgreSQL 15.4", ModeBackup, "SERVER=170002")
	s.mustFail(3, "DatabaseUnsuitable", "a migration of Coder has failed", ModeBackup, "SCHEMA=512 dirty")
	s.mustFail(3, "DatabaseUnsuitable", "schema_migrations is empty", ModeBackup, "SCHEMA=")
	s.mustFail(1, "BackupFailed", "No space left on device", ModeBackup, "FULL=1")
	if left, err := os.ReadDir(s.dir + "/backups"); err != nil || len(left) > 1 {
		t.Errorf("failed backups left %v (%v)", left, err)
	}
	s.write("backups/file", "")
	s.mustFail(3, "VolumeUnsuitable", "cannot be written", ModeBackup, "BACKUP_DIRECTORY=file/first")
}

func TestScriptRefusesToRestore(t *testing.T) {
	s := newScript(t)
	s.mustFail(3, "BackupUnusable", "no complete backup in the directory coder/first", ModeRestore)
	s.mustWork(ModeBackup)
	s.mustFail(3, "DatabaseNotEmpty", "it has 7 tables", ModeRestore, "TABLES=7")
	s.mustFail(1, "DatabaseUnreachable", "connection refused", ModeRestore, "DOWN=1")
	s.mustFail(3, "RestoreFailed", "unexpected end of file", ModeRestore, "CUT=1")
	s.mustFail(3, "Downgrade", "the backup is of Coder v2.36.1+abc, and the image v2.35.9 is older", ModeRestore, "RESTORE_IMAGE_VERSION=v2.35.9")
	s.mustFail(3, "VersionUnknown", `that of the image is "latest"`, ModeRestore, "RESTORE_IMAGE_VERSION=latest")
	s.mustFail(3, "BackupUnusable", "not those of the CoderBackup", ModeRestore, "BACKUP_SHA256=abc")

	manifest := s.read("backups/coder/first/manifest")
	s.write("backups/coder/first/manifest", strings.Replace(manifest, "v2.36.1", "v2.30.0", 1))
	s.mustFail(3, "BackupUnusable", "their SHA-256 checksums differ", ModeRestore)
	s.write("backups/coder/first/manifest", manifest)
	s.write("backups/coder/first/database.dump", "the du")
	s.mustFail(3, "BackupUnusable", "their SHA-256 checksums differ", ModeRestore)

	s.write("backups/coder/first/database.dump", "the dump\n")
	s.mustWork(ModeRestore, "RESTORE_IMAGE_VERSION=sha256:abc", "RESTORE_ALLOWED=true")
}

func TestScriptReadsTheSchema(t *testing.T) {
	s := newScript(t)
	for _, name := range []string{"BACKUP_UID", "BACKUP_DIRECTORY"} {
		delete(s.env, name)
	}
	for schema, want := range map[string]string{"512": "schemaVersion=512\n", "512 dirty": "schemaVersion=512 dirty\n", "": "schemaVersion=\n"} {
		if got := s.mustWork(ModeSchema, "SCHEMA="+schema); got != want+"serverVersion=150004\n" {
			t.Errorf("the result of the schema %q is %q", schema, got)
		}
	}
	s.mustFail(1, "DatabaseUnreachable", "connection refused", ModeSchema, "DOWN=1")
}

// A hint below the error, or the log of a program that names none, does not hide the cause.
func TestScriptReportsTheLineWithTheError(t *testing.T) {
	s := newScript(t)
	const hint = `\n\tIs the server running on that host and accepting TCP/IP connections?`
	const refused = `connection to server at "db" (10.0.0.1), port 5432 failed: Connection refused`
	for says, want := range map[string]string{
		`psql: error: connection to server at "db" (::1), port 5432 failed: timeout` + hint + `\n` + refused + hint: refused,
		`psql: error: ` + refused + hint:                                 "psql: error: " + refused,
		`psql:<stdin>:7: ERROR:  out of shared memory\nHINT:  Increase.`: "psql:<stdin>:7: ERROR:  out of shared memory",
		`first\nlast`: "last",
	} {
		s.mustFail(1, "DatabaseUnreachable", "message=the database cannot be reached: "+want+"\n", ModeSchema, "DOWN=1", "SAYS="+says)
	}
}
