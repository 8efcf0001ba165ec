package template

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// maxInlineBytes limits the text in spec.files. A request to the Kubernetes API has at most 3 MiB,
// and JSON is longer than the text that it contains.
const maxInlineBytes = 2 << 20

// source is the text of an archive, or the reason why it cannot be shown.
type source struct {
	file  uuid.UUID
	files map[string]string
	// inline is true if files contains the whole archive.
	inline    bool
	fileCount int
	size      int64
	// hash is that of the archive, if it was read just now.
	hash string
	// reason and problem explain why files is empty.
	reason, problem string
}

func sourceOf(file uuid.UUID, archive *coderd.Archive) source {
	summary := archive.Summary()
	s := source{file: file, fileCount: summary.Files, size: summary.Bytes, hash: archive.SHA256}
	switch {
	case summary.TextBytes > maxInlineBytes, len(archive.TextFiles()) < summary.TextFiles:
		s.reason = aggregationv1alpha1.ReasonFilesTooLarge
		s.problem = fmt.Sprintf("the source has %d bytes of text, and at most %d can be shown in spec.files; the largest file is %q with %d bytes; download all files through codertemplates/files",
			summary.TextBytes, maxInlineBytes, summary.Largest, summary.LargestBytes)
	case summary.TextFiles == 0:
		s.reason = aggregationv1alpha1.ReasonFilesUnreadable
		s.problem = fmt.Sprintf("none of the %d files of the source is text; read them through codertemplates/files", summary.Files)
	default:
		s.files, s.inline = archive.TextFiles(), summary.TextFiles == summary.Files
	}
	return s
}

// readSource reads the source of a version. The known source, which may be nil, is reused if it is of
// the same archive, because an archive never changes. An error means that the request may succeed
// later. If the archive is unreadable, the source has a problem, and it is read again if fresh is true.
func readSource(
	ctx context.Context, connection connections.Connection, file uuid.UUID, known *source, fresh bool,
) (source, error) {
	if known != nil && known.file == file && (!fresh || known.fileCount != 0) {
		return *known, nil
	}
	archive, err := connection.Client.DownloadText(ctx, file, maxInlineBytes)
	switch {
	case err == nil:
		return sourceOf(file, archive), nil
	case isTemporary(err):
		return source{}, err
	default:
		return source{
			file:    file,
			reason:  aggregationv1alpha1.ReasonFilesUnreadable,
			problem: fmt.Sprintf("the source of the version cannot be shown: %v", err),
		}, nil
	}
}

// shownIn returns the source that an object shows, or nil.
func shownIn(tmpl object) *source {
	if tmpl == nil || tmpl.Status.Source == nil {
		return nil
	}
	shown := tmpl.Status.Source
	file, err := uuid.Parse(shown.FileID)
	if err != nil {
		return nil
	}
	s := &source{file: file, inline: shown.Inline, fileCount: int(shown.FileCount), size: shown.SizeBytes}
	c := meta.FindStatusCondition(tmpl.Status.Conditions, aggregationv1alpha1.ConditionFilesAvailable)
	if c != nil && c.Status == metav1.ConditionFalse {
		s.reason, s.problem = c.Reason, c.Message
	} else {
		s.files = tmpl.Spec.Files
	}
	return s
}

// isTemporary reports whether the same request may succeed later.
func isTemporary(err error) bool {
	return coderd.IsUnreachable(err) || coderd.IsRateLimited(err) || coderd.IsUnauthorized(err)
}

// planContent determines the wanted content. Its file is zero if the archive must be uploaded.
func (d *decision) planContent(ctx context.Context) (err error) {
	was, wanted, active := d.was.Spec, d.wanted.Spec, d.page.active
	// If the spec never had tags, those of the active version are kept, as Coder's own CLI does.
	d.content.tags = givenTags(active.ProvisionerTags)
	if len(wanted.ProvisionerTags) > 0 || len(was.ProvisionerTags) > 0 {
		d.content.tags = givenTags(wanted.ProvisionerTags)
	}
	if d.content.file, d.shown, err = d.knownFile(ctx); err != nil {
		return err
	}
	values, err := d.connection.Client.VersionVariables(ctx, active.ID)
	if err != nil && isTemporary(err) {
		// Any other error means that the build of the active version has not finished.
		return fault(d.was.Name, err)
	}
	// Values of sensitive variables cannot be read, so they are not inherited.
	for _, v := range values {
		named := func(given aggregationv1alpha1.TemplateVariable) bool { return given.Name == v.Name }
		inSpec := slices.ContainsFunc(wanted.Variables, named) || slices.ContainsFunc(was.Variables, named)
		if !v.Sensitive && v.Value != v.Default && !inSpec {
			d.content.inherited = append(d.content.inherited, plainVariable{v.Name, v.Value})
		}
	}
	if d.content.variables, err = d.kind.resolve(ctx, d.was.Namespace, wanted.Variables, d.content.inherited); err != nil {
		return fault(d.was.Name, err)
	}
	if d.intent.Salt == "" {
		if d.intent.Salt, err = newSalt(); err != nil {
			return apierrors.NewInternalError(err)
		}
	}
	return nil
}

// release returns the release of a content, without a name.
func (c content) release(salt, message string, over uuid.UUID) *release {
	return &release{
		FileID: c.file, Content: c.hash(salt), Message: message, Tags: c.tags, Inherited: c.inherited, Over: over,
	}
}

// upload uploads the wanted archive, and decides again which release has its content.
func (d *decision) upload(ctx context.Context) error {
	done, err := d.kind.unpacking.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	base, err := d.base(ctx, d.shown)
	if err != nil {
		return err
	}
	if d.content.file, d.source, err = upload(ctx, d.connection, d.wanted, base); err != nil {
		return err
	}
	if d.intent, err = d.choose(ctx); err == nil {
		d.keepSpec()
	}
	return err
}

// knownFile returns the wanted archive, or uuid.Nil unless Coder certainly has it. It also returns
// the archive whose text spec.files shows, unless the archive was just uploaded.
func (d *decision) knownFile(ctx context.Context) (file, shown uuid.UUID, err error) {
	if !sameSource(d.was, d.wanted) {
		if file, err = uuid.Parse(d.wanted.Status.Source.FileID); err != nil {
			err = apierrors.NewInternalError(err)
		}
		return file, uuid.Nil, err
	}
	source := d.was.Status.Source
	if source != nil {
		shown, err = uuid.Parse(source.FileID)
	}
	if source == nil || err != nil {
		version, err := shownOf(ctx, d.connection.Client, d.page, d.before.Release)
		if err != nil {
			return uuid.Nil, uuid.Nil, fault(d.was.Name, err)
		}
		shown = version.FileID
	}
	if maps.Equal(d.wanted.Spec.Files, d.was.Spec.Files) {
		return shown, shown, nil
	}
	// The wanted files equal those of the active version if a user reverts a change whose version is being built or has
	// failed. With Manual, they may also be those of the version that was requested last.
	known := []uuid.UUID{d.page.active.FileID}
	if r := d.before.Release; r != nil && manual(d.wanted) && r.FileID != known[0] {
		known = append(known, r.FileID)
	}
	for _, file := range known {
		if file == shown {
			continue
		}
		s, err := readSource(ctx, d.connection, file, nil, false)
		if err != nil {
			return uuid.Nil, shown, fault(d.was.Name, err)
		}
		if s.inline && maps.Equal(s.files, d.wanted.Spec.Files) {
			d.source = &s
			return file, shown, nil
		}
	}
	return uuid.Nil, shown, nil
}

// base returns the archive whose binary files are kept. It returns nil if there is nothing to keep:
// all files are text, or spec.files was empty, so that the source is replaced as a whole.
func (d *decision) base(ctx context.Context, shown uuid.UUID) (*coderd.Archive, error) {
	if s := shownIn(d.was); s != nil && s.file == shown && (s.inline || s.problem != "") {
		return nil, nil
	}
	archive, err := d.connection.Client.DownloadArchive(ctx, shown)
	switch {
	case coderd.IsArchiveTooLarge(err):
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the files that are not text cannot be kept: %v", err))
	case err != nil && isTemporary(err):
		return nil, fault(d.was.Name, err)
	case err != nil && len(d.was.Spec.Files) > 0:
		return nil, apierrors.NewBadRequest(fmt.Sprintf(
			"the files that are not text cannot be kept, because the current source cannot be read: %v; replace the whole source through codertemplates/files", err))
	}
	return archive, nil
}

// upload sends the files to Coder. Coder stores equal archives once.
func upload(
	ctx context.Context, connection connections.Connection, tmpl object, base *coderd.Archive,
) (uuid.UUID, *source, error) {
	packed, err := coderd.PackFiles(tmpl.Spec.Files, base)
	if err != nil {
		return uuid.Nil, nil, apierrors.NewInvalid(kind, tmpl.Name, filesProblems(err))
	}
	archive, err := coderd.ReadArchive(packed)
	if err != nil {
		return uuid.Nil, nil, apierrors.NewInvalid(kind, tmpl.Name, filesProblems(err))
	}
	id, err := connection.Client.UploadArchive(ctx, packed)
	if err != nil {
		return uuid.Nil, nil, fault(tmpl.Name, err)
	}
	s := sourceOf(id, archive)
	return id, &s, nil
}

// objectWith is like Object, with a source that need not be read again.
func (k *Kind) objectWith(
	ctx context.Context, connection connections.Connection, t coderd.Template, record *metadata.Record,
	old object, known *source,
) (object, error) {
	if known == nil {
		known = shownIn(old)
	}
	s, err := k.load(ctx, connection, t, record, known, old)
	if err != nil {
		return nil, err
	}
	return k.fromCoder(s, old), nil
}

// content holds the inputs of a version.
type content struct {
	file      uuid.UUID
	variables []coderd.Variable
	inherited []plainVariable
	tags      map[string]string
}

func newSalt() (string, error) {
	salt := make([]byte, 24)
	if _, err := rand.Read(salt); err != nil {
		return "", err
	}
	return base64.RawStdEncoding.EncodeToString(salt), nil
}

// hash returns a hash that identifies a content. It cannot be computed without the salt.
func (c content) hash(salt string) string {
	variables := slices.Clone(c.variables)
	slices.SortFunc(variables, func(a, b coderd.Variable) int { return strings.Compare(a.Name, b.Name) })
	// Marshaling these types cannot fail.
	data, _ := json.Marshal(struct {
		File      uuid.UUID
		Variables []coderd.Variable
		Tags      map[string]string
	}{c.file, variables, c.tags})
	mac := hmac.New(sha256.New, []byte(salt))
	mac.Write(data)
	return hex.EncodeToString(mac.Sum(nil))
}

// versionNameOf returns the name of a version for which the user set none. Equal contents have
// equal names, so an existing version is found and not built twice.
func versionNameOf(hash string) string { return "k8s-" + hash[:12] }

// givenTags removes the tags that Coder adds to every job.
func givenTags(tags map[string]string) map[string]string {
	out := maps.Clone(tags)
	if out["scope"] == "organization" {
		delete(out, "scope")
	}
	if out["owner"] == "" {
		delete(out, "owner")
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// resolve returns the values of all variables for a build. If a Secret or its key is missing, the
// user must fix it, so the error is a *field.Error.
func (k *Kind) resolve(
	ctx context.Context, namespace string, variables []aggregationv1alpha1.TemplateVariable, inherited []plainVariable,
) ([]coderd.Variable, error) {
	var out []coderd.Variable
	for _, v := range inherited {
		out = append(out, coderd.Variable{Name: v.Name, Value: v.Value})
	}
	for i, v := range variables {
		value := v.Value
		if ref := secretOf(v); ref != nil {
			path := variablesPath.Index(i).Child("valueFrom", "secretKeyRef")
			if k.secrets.Read == nil {
				return nil, field.Forbidden(path, "this server cannot read Secrets")
			}
			var err error
			value, err = k.secrets.Read(ctx, namespace, ref.Name, ref.Key)
			switch {
			case apierrors.IsNotFound(err):
				return nil, field.NotFound(path, "key "+ref.Key+" of Secret "+ref.Name)
			case apierrors.IsForbidden(err):
				return nil, field.Forbidden(path, "the operator may not read Secret "+ref.Name)
			case err != nil:
				return nil, err
			}
		}
		out = append(out, coderd.Variable{Name: v.Name, Value: value})
	}
	return out, nil
}

func secretOf(v aggregationv1alpha1.TemplateVariable) *aggregationv1alpha1.SecretKeySelector {
	if v.ValueFrom == nil {
		return nil
	}
	return v.ValueFrom.SecretKeyRef
}

// submit creates a version unless it exists already. The name identifies it: it is derived from the
// content, or was free when it was requested.
func submit(
	ctx context.Context, client *coderd.Client, t coderd.Template, r *release, variables []coderd.Variable,
) (coderd.TemplateVersion, error) {
	v, found, err := findVersion(ctx, client, t.ID, r)
	if err != nil || found {
		return v, err
	}
	created, err := client.CreateTemplateVersion(ctx, t.OrganizationID, newVersion(&t.ID, r, variables))
	if !coderd.IsConflict(err) {
		return created, err
	}
	// An earlier request whose response was lost may have created it.
	if v, found, err := findVersion(ctx, client, t.ID, r); err != nil || found {
		return v, err
	}
	return coderd.TemplateVersion{}, &coderd.Error{
		Op: fmt.Sprintf("creating template version %q", r.Name), StatusCode: 422,
		Message: "an archived version has this name; set another in spec.versionName, or unarchive it",
		Fields:  []coderd.FieldError{{Field: "name", Detail: "an archived version has this name"}},
	}
}

// findVersion returns the version of a release by its name and files.
func findVersion(ctx context.Context, client *coderd.Client, template uuid.UUID, r *release) (coderd.TemplateVersion, bool, error) {
	versions, err := client.TemplateVersions(ctx, template)
	if err != nil {
		return coderd.TemplateVersion{}, false, err
	}
	i := slices.IndexFunc(versions, func(v coderd.TemplateVersion) bool {
		return v.FileID == r.FileID && strings.EqualFold(v.Name, r.Name)
	})
	if i < 0 {
		return coderd.TemplateVersion{}, false, nil
	}
	return versions[i], true, nil
}

func newVersion(template *uuid.UUID, r *release, variables []coderd.Variable) coderd.NewTemplateVersion {
	return coderd.NewTemplateVersion{
		TemplateID: template, FileID: r.FileID, Name: r.Name, Message: r.Message, Tags: r.Tags, Variables: variables,
	}
}

// refusal reports whether Coder refused the request permanently, so that a retry is useless.
func refusal(err error) bool {
	return refusesUser(err) || coderd.IsInvalid(err) || coderd.IsConflict(err) || coderd.IsForbidden(err) || coderd.IsNotFound(err)
}

// refusesUser reports whether the request was refused because of the Coder user who made it.
func refusesUser(err error) bool {
	return apierrors.IsForbidden(err) || coderd.ActedAs(err) != "" && (coderd.IsForbidden(err) || coderd.IsUnauthorized(err) || coderd.IsNotFound(err))
}
