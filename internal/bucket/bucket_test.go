package bucket

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/minio/minio-go/v7"
	"github.com/rclone/gofakes3"
	"github.com/rclone/gofakes3/s3mem"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

const (
	begin, upload, download, deletion = resources.BucketBegin, resources.BucketUpload, resources.BucketDownload, resources.BucketDelete

	directory = "coder/first"
	key       = "clusters/prod/" + directory + "/"
	secret    = "a-secret-key-of-the-tests" // #nosec G101 -- it is none.
)

// identityText matches an identity of age.
var identityText = regexp.MustCompile("AGE-SECRET-KEY-1[A-Z0-9]")

// fixture is a server of S3 on the loopback address, which checks signatures, and the environment of a Job.
type fixture struct {
	t       *testing.T
	server  *httptest.Server
	backend *s3mem.Backend
	env     map[string]string
	// answer answers a request instead of the server if it returns true.
	answer func(http.ResponseWriter, *http.Request) bool
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, backend: s3mem.New(), answer: func(http.ResponseWriter, *http.Request) bool { return false }}
	if err := f.backend.CreateBucket(t.Context(), "backups"); err != nil {
		t.Fatal(err)
	}
	handler := gofakes3.New(f.backend, gofakes3.WithV4Auth(map[string]string{"key": secret}), gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
	f.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !f.answer(w, r) {
			handler.ServeHTTP(w, r)
		}
	}))
	f.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	f.server.StartTLS()
	t.Cleanup(f.server.Close)
	f.env = map[string]string{
		resources.EnvS3Endpoint: f.server.URL, resources.EnvS3Region: "us-east-1", resources.EnvS3Bucket: "backups", resources.EnvS3Prefix: "clusters/prod", resources.EnvBackupUID: "uid-1", resources.EnvBackupDirectory: directory,
		resources.EnvS3AccessKeyID: "key", resources.EnvS3SecretAccessKey: secret + "\n", "BACKUPS": t.TempDir(),
		resources.EnvS3CA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw})),
	}
	return f
}

// run runs a command with changes of the environment, as name=value.
func (f *fixture) run(command string, changes ...string) error {
	f.t.Helper()
	env := maps.Clone(f.env)
	for _, change := range changes {
		name, value, _ := strings.Cut(change, "=")
		env[name] = value
	}
	err := run(f.t.Context(), command, func(name string) string { return env[name] })
	if err != nil && (strings.Contains(err.Error(), secret) || identityText.MatchString(err.Error())) {
		f.t.Errorf("%s exposes a secret: %v", command, err)
	}
	return err
}

func (f *fixture) mustWork(command string, changes ...string) {
	f.t.Helper()
	if err := f.run(command, changes...); err != nil {
		f.t.Fatalf("%s: %v", command, err)
	}
}

func (f *fixture) mustFail(reason string, retry bool, says, command string, changes ...string) {
	f.t.Helper()
	err := f.run(command, changes...)
	var p *problem
	if !errors.As(err, &p) || p.reason != reason || p.retry != retry || !strings.Contains(p.message, says) {
		f.t.Errorf("%s %q: %+v; want %s, retry %t, with %q", command, changes, err, reason, retry, says)
	}
}

// newPod empties the volume of the pod.
func (f *fixture) newPod() { f.env["BACKUPS"] = f.t.TempDir() }

// dumps writes the files of a backup, like database.sh.
func (f *fixture) dumps(dump []byte) {
	f.t.Helper()
	for name, content := range map[string][]byte{
		dumpFile: dump, manifestFile: fmt.Appendf(nil, "format=1\nuid=%s\nsize=%d\n", f.env[resources.EnvBackupUID], len(dump)), checksumsFile: []byte("sums"),
	} {
		path := filepath.Join(f.env["BACKUPS"], directory, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, content, 0o600)); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *fixture) file(name string) []byte {
	f.t.Helper()
	content, err := os.ReadFile(filepath.Join(f.env["BACKUPS"], directory, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		f.t.Fatal(err)
	}
	return content
}

// objects returns the names of all objects in the bucket.
func (f *fixture) objects() string {
	f.t.Helper()
	list, err := f.backend.ListBucket(f.t.Context(), "backups", nil, gofakes3.ListBucketPage{})
	if err != nil {
		f.t.Fatal(err)
	}
	var names []string
	for _, object := range list.Contents {
		names = append(names, strings.TrimPrefix(object.Key, key))
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func (f *fixture) object(name string) []byte {
	f.t.Helper()
	object, err := f.backend.GetObject(f.t.Context(), "backups", key+name, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	content, err := io.ReadAll(object.Contents)
	if err != nil {
		f.t.Fatal(err)
	}
	return content
}

func (f *fixture) put(name string, content []byte) {
	f.t.Helper()
	if _, err := f.backend.PutObject(f.t.Context(), "backups", key+name, map[string]string{"Last-Modified": "Mon, 02 Jan 2006 15:04:05 GMT"}, bytes.NewReader(content), int64(len(content))); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) remove(name string) {
	f.t.Helper()
	if _, err := f.backend.DeleteObject(f.t.Context(), "backups", key+name); err != nil {
		f.t.Fatal(err)
	}
}

func newIdentity(t *testing.T) *age.X25519Identity {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return identity
}

func TestBackupRestoreDelete(t *testing.T) {
	identity := newIdentity(t)
	for name, test := range map[string]struct{ recipients, object string }{
		"plain":     {"", dumpFile},
		"encrypted": {newIdentity(t).Recipient().String() + "\n" + identity.Recipient().String(), encryptedFile},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.env[resources.EnvAgeRecipients] = test.recipients
			// More than one part.
			dump := make([]byte, partSize+12345)
			if _, err := rand.Read(dump); err != nil {
				t.Fatal(err)
			}
			f.mustWork(begin)
			if f.file(manifestFile) != nil {
				t.Error("there is a backup before it is made")
			}
			f.dumps(dump)
			f.mustWork(upload)
			if got := f.objects(); got != "SHA256SUMS "+test.object+" manifest" {
				t.Errorf("the objects are %s", got)
			}
			if test.recipients != "" && bytes.Contains(f.object(encryptedFile), dump[1000:1100]) {
				t.Error("the dump is not encrypted")
			}

			f.newPod()
			f.mustWork(begin)
			if string(f.file(checksumsFile)) != "sums" || f.file(manifestFile) == nil || f.file(dumpFile) != nil {
				t.Error("another pod does not find the complete backup")
			}
			f.mustWork(upload)

			f.newPod()
			f.mustWork(download, resources.EnvAgeIdentity+"="+identity.String()+"\n", resources.EnvBackupUID+"=control-plane")
			if !bytes.Equal(f.file(dumpFile), dump) || string(f.file(checksumsFile)) != "sums" {
				t.Error("the downloaded files are not those of the backup")
			}

			f.put("../first-2/"+dumpFile, nil)
			f.mustWork(deletion, resources.EnvBackupUID+"=uid-2")
			if got := f.objects(); !strings.Contains(got, test.object+" manifest") {
				t.Errorf("another backup was deleted: %s", got)
			}
			f.mustWork(deletion)
			f.mustWork(deletion)
			if got := f.objects(); strings.Contains(got, manifestFile) || strings.Contains(got, test.object+" ") || !strings.Contains(got, "first-2") {
				t.Errorf("after the deletion there is %s", got)
			}
		})
	}
}

func TestInterruptedUploadIsRepeated(t *testing.T) {
	f := newFixture(t)
	f.dumps([]byte("first"))
	f.answer = func(w http.ResponseWriter, r *http.Request) bool {
		denied := r.Method != http.MethodGet && strings.HasSuffix(r.URL.Path, checksumsFile)
		if denied {
			w.WriteHeader(http.StatusForbidden)
		}
		return denied
	}
	f.mustFail("BucketUnsuitable", false, "need the permissions to list the bucket", upload)
	f.answer = func(http.ResponseWriter, *http.Request) bool { return false }

	f.newPod()
	f.mustFail("BackupUnusable", false, "no complete backup", download)
	f.mustWork(begin)
	if f.file(manifestFile) != nil {
		t.Error("an incomplete backup is reported as complete")
	}
	f.dumps([]byte("second"))
	f.mustWork(upload)
	if got := string(f.object(dumpFile)); got != "second" {
		t.Errorf("the dump is %q", got)
	}
}

// uploads returns the names of the objects of the backup whose upload is not complete.
func (f *fixture) uploads() (names []string) {
	f.t.Helper()
	b, err := open(func(name string) string { return f.env[name] })
	if err != nil {
		f.t.Fatal(err)
	}
	for _, name := range objectNames() {
		for upload := range b.client.ListIncompleteUploads(f.t.Context(), b.bucket, b.prefix+name, true) {
			if upload.Err != nil {
				f.t.Fatal(upload.Err)
			}
			if upload.Key == b.prefix+name && upload.UploadID != "" { // Not a common prefix.
				names = append(names, name)
			}
		}
	}
	return names
}

// cutUploads closes the connection in the middle of the second part of a dump. If the pod was killed, it removes no parts either.
func (f *fixture) cutUploads(killed bool, then func()) {
	f.answer = func(w http.ResponseWriter, r *http.Request) bool {
		part := r.URL.Query().Get("partNumber") == "2"
		if part {
			_, _ = io.CopyN(io.Discard, r.Body, 1000)
			then()
		}
		if part || killed && r.Method == http.MethodDelete {
			panic(http.ErrAbortHandler)
		}
		return false
	}
}

// Parts cost money, and no list of objects shows them.
func TestPartsOfAnInterruptedUploadAreRemoved(t *testing.T) {
	dump := make([]byte, partSize+12345)
	for _, name := range []string{dumpFile, encryptedFile} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			if name == encryptedFile {
				f.env[resources.EnvAgeRecipients] = newIdentity(t).Recipient().String()
			}
			interrupted := func() {
				f.newPod()
				f.dumps(dump)
				f.cutUploads(true, func() {})
				f.mustFail("BucketUnsuitable", true, "", upload)
				f.answer = func(http.ResponseWriter, *http.Request) bool { return false }
				if got := f.uploads(); !slices.Equal(got, []string{name}) {
					t.Fatalf("after an interrupted upload there are parts of %q", got)
				}
			}
			interrupted()
			f.mustWork(deletion, resources.EnvBackupUID+"=uid-2")
			f.mustFail("BucketUnsuitable", false, "has other objects below", upload, resources.EnvBackupUID+"=uid-2")
			if got := f.uploads(); len(got) != 1 {
				t.Errorf("another backup removed parts: %q are left", got)
			}
			f.mustWork(upload)
			if got := f.uploads(); len(got) > 0 {
				t.Errorf("the next upload leaves parts of %q", got)
			}

			f.mustWork(deletion)
			interrupted()
			f.mustWork(deletion)
			if got := f.uploads(); len(got) > 0 || f.objects() != "" {
				t.Errorf("the deletion leaves parts of %q, and the objects %s", got, f.objects())
			}

			// The pod is being stopped, so that the client of S3 sends no more requests.
			stopped := func(then func()) {
				f.dumps(dump)
				ctx, stop := context.WithCancel(t.Context())
				f.cutUploads(false, func() { then(); stop() })
				if err := run(ctx, upload, func(name string) string { return f.env[name] }); err == nil {
					t.Error("the upload was not stopped")
				}
			}
			stopped(func() {})
			if got := f.uploads(); len(got) > 0 {
				t.Errorf("a pod that is stopped leaves parts of %q", got)
			}
			stopped(func() { f.put(manifestFile, []byte("uid=uid-2\n")) })
			if got := f.uploads(); len(got) != 1 {
				t.Errorf("parts were removed, which may be those of another backup: %q are left", got)
			}
		})
	}
}

// The first pod of a backup may still run on a node that was lost. The second one removes its upload, and keeps its own.
func TestAPodThatWasReplacedKeepsTheUploadOfTheNextOne(t *testing.T) {
	f := newFixture(t)
	b, err := open(func(name string) string { return f.env[name] })
	if err != nil {
		t.Fatal(err)
	}
	f.dumps(make([]byte, partSize+12345))
	f.answer = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("partNumber") == "2" {
			b.abortUploads(t.Context())
			if _, err := (minio.Core{Client: b.client}).NewMultipartUpload(t.Context(), b.bucket, b.prefix+dumpFile, minio.PutObjectOptions{}); err != nil {
				t.Error(err)
			}
		}
		return false
	}
	f.mustFail("BucketUnsuitable", true, "NoSuchUpload", upload)
	if got := f.uploads(); !slices.Equal(got, []string{dumpFile}) {
		t.Errorf("the first pod leaves uploads of %q", got)
	}
}

// A server or access keys that do not allow to list incomplete uploads do not prevent a backup.
func TestServersThatDoNotListUploads(t *testing.T) {
	f := newFixture(t)
	f.answer = func(w http.ResponseWriter, r *http.Request) bool {
		lists := r.Method == http.MethodGet && r.URL.Query().Has("uploads")
		if lists {
			w.WriteHeader(http.StatusForbidden)
		}
		return lists
	}
	f.dumps([]byte("dump"))
	f.mustWork(upload)
	f.mustWork(deletion)
	if got := f.objects(); got != "" {
		t.Errorf("after the deletion there is %s", got)
	}
}

func TestOthersAreNotOverwritten(t *testing.T) {
	f := newFixture(t)
	const says = "has other objects below"
	f.put(dumpFile, []byte("theirs"))
	f.mustFail("BucketUnsuitable", false, says, begin)
	f.put(manifestFile, []byte("uid=uid-2\n"))
	f.put(checksumsFile, nil)
	f.mustFail("BucketUnsuitable", false, says, begin)
	f.dumps([]byte("ours"))
	f.mustFail("BucketUnsuitable", false, says, upload)
	f.mustWork(deletion)
	if got := string(f.object(dumpFile)); got != "theirs" {
		t.Errorf("the dump is %q", got)
	}
	f.put(manifestFile, bytes.Repeat([]byte("a"), maxSmallFile+1))
	f.mustFail("BackupUnusable", false, "larger than", begin)
}

func TestAnotherUploadAtTheSameTime(t *testing.T) {
	f := newFixture(t)
	f.dumps([]byte("ours"))
	f.answer = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, dumpFile) {
			f.put(manifestFile, []byte("uid=uid-2\n"))
		}
		return false
	}
	f.mustFail("BucketUnsuitable", false, "at the same time", upload)
}

func TestBucketThatCannotBeUsed(t *testing.T) {
	f := newFixture(t)
	for _, command := range []string{begin, download, deletion} {
		f.mustFail("BucketUnsuitable", false, "SignatureDoesNotMatch", command, resources.EnvS3SecretAccessKey+"=wrong")
		f.mustFail("BucketUnsuitable", false, "set the key ca.crt of its Secret", command, resources.EnvS3CA+"=")
	}
	f.mustFail("BucketUnsuitable", false, "NoSuchBucket", begin, resources.EnvS3Bucket+"=missing")
	f.mustFail("BucketUnsuitable", false, "NoSuchBucket", download, resources.EnvS3Bucket+"=missing")
	f.mustWork(deletion, resources.EnvS3Bucket+"=missing")
	f.mustFail("BucketUnsuitable", false, "no certificate in PEM format", begin, resources.EnvS3CA+"=wrong")
	f.mustFail("BucketUnsuitable", false, "no public key of age", begin, resources.EnvAgeRecipients+"=age1wrong")

	f.dumps([]byte("dump"))
	f.answer = func(w http.ResponseWriter, r *http.Request) bool {
		full := r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, dumpFile)
		if full {
			w.WriteHeader(http.StatusInsufficientStorage)
			_, _ = io.WriteString(w, "<Error><Code>XMinioStorageFull</Code><Message>the disk\nis full</Message></Error>")
		}
		return full
	}
	f.mustFail("BucketUnsuitable", true, "is full", upload)
	f.server.Close()
	f.mustFail("BucketUnsuitable", true, "connection refused", begin)
}

// A server that stores something else is noticed before the backup is complete.
func TestUploadIsReadBack(t *testing.T) {
	f := newFixture(t)
	f.dumps([]byte("the dump"))
	f.answer = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, dumpFile) {
			f.put(dumpFile, []byte("the pump"))
		}
		return false
	}
	f.mustFail("BackupFailed", true, "the checksums differ", upload)
	if strings.Contains(f.objects(), checksumsFile) {
		t.Error("the backup is complete")
	}
}

func TestBackupThatCannotBeRestored(t *testing.T) {
	identity := newIdentity(t)
	with := resources.EnvAgeIdentity + "=" + identity.String()
	f := newFixture(t)
	f.mustFail("BackupUnusable", false, "no complete backup", download)
	f.dumps(bytes.Repeat([]byte("dump"), 50000))
	f.mustWork(upload, resources.EnvAgeRecipients+"="+identity.Recipient().String())
	f.mustFail("BackupUnusable", false, "the backup is encrypted: set the key ageIdentity", download)
	f.mustFail("BackupUnusable", false, "contains no identity of age", download, resources.EnvAgeIdentity+"="+identity.String()[:40])
	f.mustFail("BackupUnusable", false, "encrypted for other keys", download, resources.EnvAgeIdentity+"="+newIdentity(t).String())
	f.mustWork(download, with)

	encrypted := f.object(encryptedFile)
	for _, cut := range []int{0, 10, 100, 1000, len(encrypted) - 1} {
		f.put(encryptedFile, encrypted[:cut])
		f.mustFail("BackupUnusable", false, "is incomplete or changed", download, with)
	}
	encrypted[len(encrypted)-100] ^= 1
	f.put(encryptedFile, encrypted)
	f.mustFail("BackupUnusable", false, "is incomplete or changed", download, with)

	// The object is complete, but not the answer.
	encrypted[len(encrypted)-100] ^= 1
	f.put(encryptedFile, encrypted)
	f.answer = func(w http.ResponseWriter, r *http.Request) bool {
		cut := strings.HasSuffix(r.URL.Path, encryptedFile)
		if cut {
			w.Header().Set("Content-Length", fmt.Sprint(len(encrypted)))
			w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
			_, _ = w.Write(encrypted[:1000])
		}
		return cut
	}
	f.mustFail("BucketUnsuitable", true, "unexpected EOF", download, with)
	f.answer = func(http.ResponseWriter, *http.Request) bool { return false }

	f.remove(encryptedFile)
	f.mustFail("BackupUnusable", false, "has no dump", download)
	f.put(dumpFile, bytes.Repeat([]byte("dump"), 50001))
	f.mustFail("BackupUnusable", false, "is incomplete or changed", download)
}

// The result is for the condition, in the form of database.sh.
func TestCommandReportsFailures(t *testing.T) {
	f := newFixture(t)
	f.env["RESULT"] = filepath.Join(t.TempDir(), "result")
	f.env[resources.EnvS3Bucket] = "missing"
	for name, value := range f.env {
		t.Setenv(name, value)
	}
	streams, _, _, errOut := genericiooptions.NewTestIOStreams()
	if code := cli.Execute(context.Background(), NewCommand(), []string{begin}, streams); code != resources.ExitHopeless {
		t.Errorf("the exit code is %d: %s", code, errOut)
	}
	got, err := os.ReadFile(f.env["RESULT"])
	if want := "reason=BucketUnsuitable\nmessage=the bucket \"missing\" at "; err != nil || !strings.HasPrefix(string(got), want) || strings.Count(string(got), "\n") != 2 {
		t.Errorf("the result is %q (%v)", got, err)
	}
	if got := oneLine("a\nreason=b\x1b " + strings.Repeat("ä", maxMessage)); strings.ContainsAny(got, "\n\x1b") || len(got) > maxMessage+3 {
		t.Errorf("the message is %q", got)
	}
}
