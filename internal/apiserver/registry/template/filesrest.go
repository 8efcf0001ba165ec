package template

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/coderfault"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// filesREST implements codertemplates/files: the archive of the template's source. GET returns it
// as tar, or as zip with ?format=zip. ?version=<UUID> selects another version. PUT replaces it with
// a tar or zip archive. With ?resourceVersion= it requires that version of the template.
type filesREST struct {
	registry.Body
	*reader
}

var _ rest.Connecter = (*filesREST)(nil)

// ConnectMethods implements rest.Connecter. In RBAC, they are the verbs get and update.
func (r *filesREST) ConnectMethods() []string { return []string{http.MethodGet, http.MethodPut} }

// NewConnectOptions implements rest.Connecter. The handler parses the query itself.
func (r *filesREST) NewConnectOptions() (options runtime.Object, subpath bool, path string) {
	return nil, false, ""
}

// Connect implements rest.Connecter.
func (r *filesREST) Connect(ctx context.Context, name string, _ runtime.Object, responder rest.Responder) (_ http.Handler, err error) {
	defer coderfault.Name(ctx, &err)
	found, err := r.kind.Find(ctx, r.store, name)
	if err != nil {
		return nil, err
	}
	return r.serve(ctx, found, responder, ""), nil
}

// serve returns the handler of a request. GET returns the archive of version, or if that is "", of the one in the query.
func (r *filesREST) serve(
	ctx context.Context, found registry.Found[object], responder rest.Responder, version string,
) http.Handler {
	files := &filesRequest{filesREST: r, Found: found, responder: responder}
	// The handler's request has another context than the Store's.
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var err error
		if req.Method == http.MethodGet {
			err = files.get(ctx, w, req, cmp.Or(version, req.URL.Query().Get("version")))
		} else {
			err = files.put(ctx, w, req)
		}
		coderfault.Name(ctx, &err)
		if err != nil {
			responder.Error(err)
		}
	})
}

// versionFilesREST implements codertemplateversions/files: the archive of the version's source, as codertemplates/files returns it.
type versionFilesREST struct {
	*filesREST
	versions rest.Getter
}

// ConnectMethods implements rest.Connecter. In RBAC, it is the verb get.
func (r *versionFilesREST) ConnectMethods() []string { return []string{http.MethodGet} }

// Connect implements rest.Connecter.
func (r *versionFilesREST) Connect(ctx context.Context, name string, _ runtime.Object, responder rest.Responder) (_ http.Handler, err error) {
	defer coderfault.Name(ctx, &err)
	obj, err := r.versions.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	version, err := versionInfo.Cast(obj)
	if err != nil {
		return nil, err
	}
	found, err := r.kind.Find(ctx, r.store, version.Status.Template)
	if err != nil {
		return nil, err
	}
	return r.serve(ctx, found, responder, version.Status.ID), nil
}

type filesRequest struct {
	*filesREST
	registry.Found[object]
	responder rest.Responder
}

// get sends the archive of a version, or the one that spec.files shows.
func (r *filesRequest) get(ctx context.Context, w http.ResponseWriter, req *http.Request, version string) error {
	file, err := r.fileOf(ctx, version)
	if err != nil {
		return err
	}
	contentType, asZip := "application/x-tar", false
	switch format := req.URL.Query().Get("format"); format {
	case "", "tar":
	case "zip":
		contentType, asZip = "application/zip", true
	default:
		return apierrors.NewBadRequest(fmt.Sprintf("format is %q, and must be tar or zip", format))
	}
	archive, err := r.Connection.Client.OpenFile(ctx, file, asZip)
	if coderd.IsNotFound(err) {
		return apierrors.NewNotFound(aggregationv1alpha1.Resource(Plural+"/files"), r.Object.Name)
	}
	if err != nil {
		return fault(r.Object.Name, err)
	}
	defer func() { _ = archive.Close() }()
	w.Header().Set("Content-Type", contentType)
	if archive.Size >= 0 {
		w.Header().Set("Content-Length", strconv.FormatInt(archive.Size, 10))
	}
	w.WriteHeader(http.StatusOK)
	source := &endOf{from: archive}
	if _, _ = io.Copy(w, source); source.err != nil {
		// The status was already sent, so the only way to report the error is to abort the
		// connection.
		log.FromContext(ctx).Info("Aborted a download because Coder did not send the complete archive", "template", r.Object.Name, "error", source.err.Error())
		panic(http.ErrAbortHandler)
	}
	return nil
}

// endOf stores the error that ended its reader.
type endOf struct {
	from io.Reader
	err  error
}

// Read implements io.Reader.
func (e *endOf) Read(p []byte) (int, error) {
	n, err := e.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		e.err = err
	}
	return n, err
}

func (r *filesRequest) fileOf(ctx context.Context, version string) (uuid.UUID, error) {
	if version == "" {
		if source := r.Object.Status.Source; source != nil {
			if id, err := uuid.Parse(source.FileID); err == nil {
				return id, nil
			}
		}
		version = r.Object.Status.ActiveVersionID
	}
	v, err := ownVersion(ctx, r.Found, version)
	return v.FileID, err
}

// put uploads the archive to Coder, and then updates the template as any update does, so that the
// writer creates the version. Admission sees the request as CONNECT.
func (r *filesRequest) put(ctx context.Context, w http.ResponseWriter, req *http.Request) error {
	query := req.URL.Query()
	options := &metav1.UpdateOptions{FieldManager: query.Get("fieldManager"), DryRun: query["dryRun"]}
	basis := sameObject{UID: &r.Object.UID}
	if version := query.Get("resourceVersion"); version != "" {
		if version != r.Object.ResourceVersion {
			return apierrors.NewConflict(resource, r.Object.Name, fmt.Errorf(
				"the template has changed since resourceVersion %s; download its files again and repeat the change", version))
		}
		basis.ResourceVersion = &version
	}
	s := subjectOf(r.Object.Name)
	as, user, err := r.kind.Actors.Begin(ctx, r.Connection, s)
	if err == nil && user != nil {
		err = impersonation.May(as, r.Connection.Client, s, coderd.Permission{Resource: r.kind.InCoder, Action: "update", ID: r.ID})
	}
	if err != nil {
		return err
	}
	source, err := r.receive(as, w, req, len(options.DryRun) > 0)
	if err != nil {
		return err
	}
	if len(options.DryRun) > 0 {
		r.responder.Object(http.StatusOK, r.Object)
		return nil
	}
	ctx = context.WithValue(ctx, replacementKey{}, source)
	updated, _, err := r.store.Update(ctx, r.Object.Name, basis, rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, options)
	if err != nil {
		return err
	}
	r.responder.Object(http.StatusOK, updated)
	return nil
}

// receive reads, validates and uploads the archive. All of it is in memory, so the number of
// concurrent requests is limited.
func (r *filesRequest) receive(
	ctx context.Context, w http.ResponseWriter, req *http.Request, dryRun bool,
) (*aggregationv1alpha1.TemplateSource, error) {
	if req.ContentLength > coderd.MaxArchiveBytes {
		return nil, archiveTooLarge()
	}
	done, err := r.kind.unpacking.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	archive, err := readArchive(w, req)
	if err != nil {
		return nil, r.refused(err)
	}
	packed, err := coderd.PackArchive(archive)
	if err != nil {
		return nil, r.refused(err)
	}
	summary := archive.Summary()
	source := &aggregationv1alpha1.TemplateSource{
		FileCount: int32(summary.Files), SizeBytes: summary.Bytes, //nolint:gosec // At most MaxFiles.
		Inline: summary.Files == summary.TextFiles && summary.TextBytes <= maxInlineBytes,
	}
	if dryRun {
		return source, nil
	}
	file, err := r.Connection.Client.UploadArchive(ctx, packed)
	if err != nil {
		return nil, fault(r.Object.Name, err)
	}
	source.FileID = file.String()
	return source, nil
}

// receiveWithin limits how long a client may take to send an archive. Other requests wait
// meanwhile.
const receiveWithin = 30 * time.Second

func readArchive(w http.ResponseWriter, req *http.Request) (*coderd.Archive, error) {
	// A ResponseWriter without this function has another timeout.
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(receiveWithin))
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	var data bytes.Buffer
	if req.ContentLength > 0 {
		data.Grow(int(req.ContentLength) + bytes.MinRead)
	}
	if _, err := data.ReadFrom(io.LimitReader(req.Body, coderd.MaxArchiveBytes+1)); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the archive was not received completely: %v", err))
	}
	if data.Len() > coderd.MaxArchiveBytes {
		return nil, archiveTooLarge()
	}
	return coderd.ReadArchive(data.Bytes())
}

func archiveTooLarge() error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the archive may have at most %d bytes", coderd.MaxArchiveBytes))
}

// refused converts the error of an invalid archive to an API status.
func (r *filesRequest) refused(err error) error {
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &status):
		return err
	case coderd.IsArchiveTooLarge(err):
		return apierrors.NewRequestEntityTooLargeError(filesProblems(err).ToAggregate().Error())
	}
	return apierrors.NewInvalid(kind, r.Object.Name, filesProblems(err))
}

// sameObject is an update without changes. Only the strategy changes the object. Without a resourceVersion, the archive
// replaces the newest source as a whole.
type sameObject metav1.Preconditions

// Preconditions implements rest.UpdatedObjectInfo.
func (o sameObject) Preconditions() *metav1.Preconditions { return (*metav1.Preconditions)(&o) }

// UpdatedObject implements rest.UpdatedObjectInfo.
func (o sameObject) UpdatedObject(_ context.Context, old runtime.Object) (runtime.Object, error) {
	return old.DeepCopyObject(), nil
}

// replacementKey is the context key of the source that replaces the current one. Only this package
// can set it, so a client cannot write the status.
type replacementKey struct{}

const (
	// maxUnpacking limits the archives that are in memory at once, each packed and unpacked.
	// Together they fit into the default memory limit of the process.
	maxUnpacking = 2
	// maxWaiting limits the requests that wait for a slot.
	maxWaiting = 8
	// maxWait limits how long one of them waits.
	maxWait = 20 * time.Second
	// tryAgain is the Retry-After of a rejected request, in seconds.
	tryAgain = 5
)

// unpacking limits how many archives are in memory at once.
type unpacking struct {
	running, waiting chan struct{}
	wait             time.Duration
}

// begin waits until an archive may be read into memory. The error is an API status: 429 if there
// are too many requests.
func (u *unpacking) begin(ctx context.Context) (done func(), err error) {
	select {
	case u.running <- struct{}{}:
		return u.end, nil
	default:
	}
	select {
	case u.waiting <- struct{}{}:
		defer func() { <-u.waiting }()
	default:
		return nil, tooMany()
	}
	ctx, cancel := context.WithTimeout(ctx, u.wait)
	defer cancel()
	select {
	case u.running <- struct{}{}:
		return u.end, nil
	case <-ctx.Done():
		return nil, tooMany()
	}
}

func (u *unpacking) end() { <-u.running }

func tooMany() error {
	return apierrors.NewTooManyRequests(fmt.Sprintf(
		"%d template archives are being unpacked and %d are waiting, which is the limit of this server; try again later",
		maxUnpacking, maxWaiting), tryAgain)
}
