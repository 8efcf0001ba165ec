package bucket

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/spf13/cobra"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

const (
	manifestFile  = "manifest"
	checksumsFile = "SHA256SUMS"
	dumpFile      = "database.dump"
	encryptedFile = dumpFile + ".age"

	// maxSmallFile limits the manifest and the checksums.
	maxSmallFile = 64 << 10
	// partSize is the size of a part of an upload, of which one is in memory. S3 allows 10,000 parts, so 156 GiB.
	partSize = 16 << 20
	// requestLimit is the time in which a server must begin to answer. The time of the whole transfer is
	// limited by the Job.
	requestLimit = 2 * time.Minute
	attempts     = 3
	// abortLimit is the time for the removal of parts after an upload has failed. It fits into the grace period of the pod.
	abortLimit = 10 * time.Second
)

// bucket is the connection to the objects of one backup.
type bucket struct {
	client *minio.Client
	bucket string
	// prefix is the beginning of the names of the objects, with a slash at its end.
	prefix string
	// uid is the uid of the CoderBackup. directory has its files.
	uid, directory string
	recipients     []age.Recipient
	identity       string
}

// open returns the bucket that the environment describes. It sends no request.
func open(getenv func(string) string) (*bucket, error) {
	endpoint, err := url.Parse(getenv(resources.EnvS3Endpoint))
	if err != nil || endpoint.Host == "" {
		return nil, unsuitable("the endpoint of the bucket is not a URL")
	}
	transport, err := minio.DefaultTransport(endpoint.Scheme == "https")
	if err != nil {
		return nil, fmt.Errorf("making the client of S3: %w", err)
	}
	transport.ResponseHeaderTimeout = requestLimit
	if ca := getenv(resources.EnvS3CA); ca != "" && transport.TLSClientConfig != nil {
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool()
		}
		if !roots.AppendCertsFromPEM([]byte(ca)) {
			return nil, unsuitable("the key ca.crt of the Secret of the bucket contains no certificate in PEM format")
		}
		transport.TLSClientConfig.RootCAs = roots
	}
	lookup := minio.BucketLookupAuto
	if style, err := strconv.ParseBool(getenv(resources.EnvS3PathStyle)); err == nil {
		lookup = minio.BucketLookupDNS
		if style {
			lookup = minio.BucketLookupPath
		}
	}
	secret := func(name string) string { return strings.TrimSpace(getenv(name)) }
	client, err := minio.New(endpoint.Host, &minio.Options{
		Creds:  credentials.NewStaticV4(secret(resources.EnvS3AccessKeyID), secret(resources.EnvS3SecretAccessKey), secret(resources.EnvS3SessionToken)),
		Secure: endpoint.Scheme == "https", Transport: transport, Region: getenv(resources.EnvS3Region), BucketLookup: lookup, MaxRetries: attempts,
	})
	if err != nil {
		return nil, unsuitable("the client of S3 refuses the endpoint: %v", err)
	}
	name := getenv(resources.EnvBackupDirectory)
	b := &bucket{
		client: client, bucket: getenv(resources.EnvS3Bucket), prefix: path.Join(getenv(resources.EnvS3Prefix), name) + "/",
		uid: getenv(resources.EnvBackupUID), directory: filepath.Join(cmp.Or(getenv("BACKUPS"), "/backups"), filepath.FromSlash(name)), identity: secret(resources.EnvAgeIdentity),
	}
	if !filepath.IsLocal(filepath.FromSlash(name)) || b.uid == "" {
		return nil, errors.New("the environment describes no backup")
	}
	if recipients := getenv(resources.EnvAgeRecipients); recipients != "" {
		if b.recipients, err = age.ParseRecipients(strings.NewReader(recipients)); err != nil {
			return nil, unsuitable("ageRecipients contains no public key of age: %v", err)
		}
	}
	return b, nil
}

func (b *bucket) begin(ctx context.Context) error {
	manifest, err := b.claimed(ctx)
	if manifest == nil || err != nil {
		return err
	}
	sums, err := b.read(ctx, checksumsFile)
	if sums == nil || err != nil {
		return err // An earlier pod did not complete it.
	}
	return b.save(manifest, sums)
}

// save writes the small files of the backup.
func (b *bucket) save(manifest, sums []byte) error {
	if err := os.MkdirAll(b.directory, 0o750); err != nil {
		return err
	}
	_, manifestErr := b.store(manifestFile, bytes.NewReader(manifest))
	_, sumsErr := b.store(checksumsFile, bytes.NewReader(sums))
	return errors.Join(manifestErr, sumsErr)
}

// claimed returns the manifest of this backup, or nil if there are no objects. It returns an error if they
// are those of another backup.
func (b *bucket) claimed(ctx context.Context) ([]byte, error) {
	manifest, err := b.read(ctx, manifestFile)
	if err != nil || manifest != nil && value(manifest, "uid") == b.uid {
		return manifest, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	object, found := <-b.client.ListObjects(ctx, b.bucket, minio.ListObjectsOptions{Prefix: b.prefix, Recursive: true, MaxKeys: 1})
	if object.Err != nil {
		return nil, b.failed(object.Err)
	}
	if found || manifest != nil {
		return nil, unsuitable("the bucket %q has other objects below %q: choose another name or prefix, or remove them", b.bucket, b.prefix)
	}
	return nil, nil
}

func (b *bucket) upload(ctx context.Context) error {
	dump, err := os.Open(filepath.Join(b.directory, dumpFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil // An earlier pod completed it.
	}
	if err != nil {
		return err
	}
	defer func() { _ = dump.Close() }()
	// The dump may have taken hours.
	if _, err := b.claimed(ctx); err != nil {
		return err
	}
	manifest, err := os.ReadFile(filepath.Join(b.directory, manifestFile))
	if err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(b.directory, checksumsFile))
	if err != nil {
		return err
	}
	if err := b.put(ctx, manifestFile, bytes.NewReader(manifest)); err != nil {
		return err
	}
	b.abortUploads(ctx) // An earlier pod may have been killed.
	if b.recipients == nil {
		err = b.put(ctx, dumpFile, dump)
	} else {
		encrypted, encrypt := io.Pipe()
		go func() { encrypt.CloseWithError(b.encrypt(encrypt, dump)) }()
		err = b.put(ctx, encryptedFile, encrypted)
		_ = encrypted.Close()
	}
	if err != nil {
		return err
	}
	stored, err := b.read(ctx, manifestFile)
	if err == nil && !bytes.Equal(stored, manifest) {
		err = unsuitable("another backup was written to %q in the bucket %q at the same time: choose another prefix", b.prefix, b.bucket)
	}
	if err != nil {
		return err
	}
	return b.put(ctx, checksumsFile, bytes.NewReader(sums))
}

// abortUploads removes the parts of uploads of this backup that were interrupted, which no list of objects shows. Not every server
// lists such uploads, and the access keys may not be allowed to, so errors are ignored. The manifest must be that of this backup.
func (b *bucket) abortUploads(ctx context.Context) {
	for _, name := range objectNames() {
		_ = b.client.RemoveIncompleteUpload(ctx, b.bucket, b.prefix+name)
	}
}

// objectNames returns the names of all objects of a backup. The manifest says whose they are, so it is deleted last.
func objectNames() []string {
	return []string{checksumsFile, dumpFile, encryptedFile, manifestFile}
}

func (b *bucket) encrypt(to io.Writer, dump io.Reader) error {
	w, err := age.Encrypt(to, b.recipients...)
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, dump); err != nil {
		return err
	}
	return w.Close()
}

// put stores an object, reads it back, and compares the checksums.
func (b *bucket) put(ctx context.Context, name string, content io.Reader) error {
	sent := sha256.New()
	source := &source{Reader: io.TeeReader(content, sent)}
	// Of a stream, one part is in memory.
	uploaded, err := b.client.PutObject(ctx, b.bucket, b.prefix+name, source, -1, minio.PutObjectOptions{PartSize: partSize, ContentType: "application/octet-stream"})
	// Without its upload, another pod of this backup has begun, and the uploads are that pod's.
	if err != nil && minio.ToErrorResponse(err).Code != minio.NoSuchUpload {
		// The client has tried that, but sends no requests when the pod is being stopped.
		after, stop := context.WithTimeout(context.WithoutCancel(ctx), abortLimit)
		if manifest, err := b.claimed(after); err == nil && manifest != nil {
			b.abortUploads(after)
		}
		stop()
	}
	rest, _ := io.CopyN(io.Discard, source, 1)
	switch {
	case source.err != nil:
		return fmt.Errorf("reading %s for the upload: %w", name, source.err)
	case err != nil:
		return b.failed(err)
	case rest > 0:
		return unsuitable("the object %q is too large for one upload", b.prefix+name)
	}
	stored, err := b.client.GetObject(ctx, b.bucket, b.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return b.failed(err)
	}
	defer func() { _ = stored.Close() }()
	got := sha256.New()
	if _, err := io.Copy(got, io.LimitReader(stored, uploaded.Size+1)); err != nil {
		return b.failed(err)
	}
	if !bytes.Equal(got.Sum(nil), sent.Sum(nil)) {
		return &problem{reason: coderv1alpha1.ReasonBackupFailed, retry: true, message: fmt.Sprintf("the object %q in the bucket %q is not what was uploaded: the checksums differ", b.prefix+name, b.bucket)}
	}
	return nil
}

func (b *bucket) download(ctx context.Context) error {
	manifest, err := b.read(ctx, manifestFile)
	if err != nil {
		return err
	}
	sums, err := b.read(ctx, checksumsFile)
	if err != nil {
		return err
	}
	size, numberErr := strconv.ParseInt(value(manifest, "size"), 10, 64)
	if sums == nil || numberErr != nil || size < 0 {
		return unusable("the bucket %q has no complete backup below %q", b.bucket, b.prefix)
	}
	if err := b.save(manifest, sums); err != nil {
		return err
	}
	object, name, err := b.dump(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = object.Close() }()
	source := &source{Reader: object}
	var content io.Reader = source
	if name == encryptedFile {
		if content, err = b.decrypt(source); err != nil && source.err == nil {
			return err
		}
	}
	var n int64
	if source.err == nil {
		n, err = b.store(dumpFile, io.LimitReader(content, size+1))
	}
	switch {
	case errors.As(err, new(*os.PathError)):
		return err
	case source.err != nil:
		return b.failed(source.err)
	case err != nil || n != size:
		return unusable("the object %q in the bucket %q is incomplete or changed", b.prefix+name, b.bucket)
	}
	return nil
}

func (b *bucket) dump(ctx context.Context) (*minio.Object, string, error) {
	for _, name := range []string{dumpFile, encryptedFile} {
		object, err := b.client.GetObject(ctx, b.bucket, b.prefix+name, minio.GetObjectOptions{})
		if err == nil {
			_, err = object.Stat()
		}
		if err == nil {
			return object, name, nil
		}
		if !missing(err) {
			return nil, "", b.failed(err)
		}
	}
	return nil, "", unusable("the bucket %q has no dump below %q", b.bucket, b.prefix)
}

func (b *bucket) decrypt(from io.Reader) (io.Reader, error) {
	if b.identity == "" {
		return nil, unusable("the backup is encrypted: set the key ageIdentity of the Secret of the bucket to an identity of age that can decrypt it")
	}
	// The errors of age may quote the identity.
	identities, err := age.ParseIdentities(strings.NewReader(b.identity))
	if err != nil {
		return nil, unusable("the key ageIdentity of the Secret of the bucket contains no identity of age (AGE-SECRET-KEY-1...)")
	}
	content, err := age.Decrypt(from, identities...)
	if errors.As(err, new(*age.NoIdentityMatchError)) {
		return nil, unusable("the backup is encrypted for other keys than the one in ageIdentity of the Secret of the bucket")
	}
	if err != nil {
		return nil, unusable("the encrypted dump in the bucket %q below %q is incomplete or changed", b.bucket, b.prefix)
	}
	return content, nil
}

func (b *bucket) delete(ctx context.Context) error {
	manifest, err := b.read(ctx, manifestFile)
	if err != nil && minio.ToErrorResponse(errors.Unwrap(err)).Code == minio.NoSuchBucket {
		return nil
	}
	if err != nil || value(manifest, "uid") != b.uid {
		return err
	}
	b.abortUploads(ctx)
	for _, name := range objectNames() {
		if err := b.client.RemoveObject(ctx, b.bucket, b.prefix+name, minio.RemoveObjectOptions{}); err != nil && !missing(err) {
			return b.failed(err)
		}
	}
	return nil
}

// read returns the content of a small object, or nil if it does not exist.
func (b *bucket) read(ctx context.Context, name string) ([]byte, error) {
	object, err := b.client.GetObject(ctx, b.bucket, b.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, b.failed(err)
	}
	defer func() { _ = object.Close() }()
	content, err := io.ReadAll(io.LimitReader(object, maxSmallFile+1))
	switch {
	case missing(err):
		return nil, nil
	case err != nil:
		return nil, b.failed(err)
	case len(content) > maxSmallFile:
		return nil, unusable("the object %q in the bucket %q is larger than %d bytes, so it is none of a backup", b.prefix+name, b.bucket, maxSmallFile)
	}
	return append([]byte{}, content...), nil
}

func (b *bucket) store(name string, content io.Reader) (int64, error) {
	file, err := os.OpenFile(filepath.Join(b.directory, name), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640) // #nosec G302,G304 -- the containers of the pod share it.
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(file, content)
	return n, errors.Join(err, file.Close())
}

// source records why a stream cannot be read.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

func missing(err error) bool {
	return err != nil && minio.ToErrorResponse(err).Code == minio.NoSuchKey
}

// failed returns the problem for an error of the server or of the connection to it.
func (b *bucket) failed(err error) error {
	response := minio.ToErrorResponse(err)
	final := []string{"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "NoSuchBucket", "PermanentRedirect", "AuthorizationHeaderMalformed", "QuotaExceeded"}
	p := &problem{reason: coderv1alpha1.ReasonBucketUnsuitable, cause: err, retry: !slices.Contains(final, response.Code)}
	p.message = fmt.Sprintf("the bucket %q at %s: %s", b.bucket, b.client.EndpointURL().Host, err.Error())
	switch {
	case errors.As(err, new(*tls.CertificateVerificationError)):
		p.retry = false
		p.message += "; set the key ca.crt of its Secret to the certificate of its CA"
	case response.Code == "AccessDenied" || response.StatusCode == http.StatusForbidden:
		p.message += fmt.Sprintf(" (%s); the access keys need the permissions to list the bucket, and to get, put and delete objects below %q", response.Code, b.prefix)
	case response.Code != "":
		p.message += fmt.Sprintf(" (%s)", response.Code)
	}
	return p
}

func value(manifest []byte, name string) string {
	for line := range strings.Lines(string(manifest)) {
		if got, ok := strings.CutPrefix(line, name+"="); ok {
			return strings.TrimSpace(got)
		}
	}
	return ""
}

// maxMessage is the maximum length of a message.
const maxMessage = 600

// problem is an error with the reason of a condition.
type problem struct {
	reason, message string
	cause           error
	// retry means that another attempt may succeed.
	retry bool
}

func (p *problem) Error() string { return p.message }

// Unwrap returns the error of the client.
func (p *problem) Unwrap() error { return p.cause }

func unusable(format string, args ...any) error {
	return &problem{reason: coderv1alpha1.ReasonBackupUnusable, message: fmt.Sprintf(format, args...)}
}

func unsuitable(format string, args ...any) error {
	return &problem{reason: coderv1alpha1.ReasonBucketUnsuitable, message: fmt.Sprintf(format, args...)}
}

// NewCommand returns the command that the containers of a Job run. It is not for users, so the help does not
// list it. The environment is that of resources.DatabaseJob. A failure is written to $RESULT as reason and message, as by database.sh. Exit code 3 means that
// another attempt would fail too.
func NewCommand() *cobra.Command {
	return &cobra.Command{
		Use: resources.BucketCommand, Hidden: true, Short: "Transfer the files of a backup (for the Jobs of CoderBackups)",
		Args: cobra.ExactArgs(1), ValidArgs: []string{resources.BucketBegin, resources.BucketUpload, resources.BucketDownload, resources.BucketDelete},
		RunE: func(cmd *cobra.Command, args []string) error {
			err := run(cmd.Context(), args[0], os.Getenv)
			if err == nil || cmd.Context().Err() != nil {
				return err
			}
			p := &problem{reason: coderv1alpha1.ReasonBackupFailed, message: err.Error(), retry: true}
			errors.As(err, &p)
			message := oneLine(p.message)
			path := cmp.Or(os.Getenv("RESULT"), "/dev/termination-log")
			if err := os.WriteFile(path, fmt.Appendf(nil, "reason=%s\nmessage=%s\n", p.reason, message), 0o600); err != nil {
				return fmt.Errorf("%s; it cannot be reported: %w", message, err)
			}
			if p.retry {
				return errors.New(message)
			}
			return &cli.ExitError{Code: resources.ExitHopeless, Err: errors.New(message)}
		},
	}
}

func run(ctx context.Context, command string, getenv func(string) string) error {
	b, err := open(getenv)
	if err != nil {
		return err
	}
	switch command {
	case resources.BucketBegin:
		return b.begin(ctx)
	case resources.BucketUpload:
		return b.upload(ctx)
	case resources.BucketDownload:
		return b.download(ctx)
	case resources.BucketDelete:
		return b.delete(ctx)
	}
	return cli.Usage("%q is not a command of %s", command, resources.BucketCommand)
}

// oneLine returns a text, which may come from a server, as one line of limited length.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(cli.Visible(text)), " ")
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "..."
	}
	return text
}
