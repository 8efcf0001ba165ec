package template

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
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
	// reason and problem explain why files is empty.
	reason, problem string
}

// sourceOf returns the source of an archive.
func sourceOf(file uuid.UUID, archive *coderd.Archive) source {
	summary := archive.Summary()
	s := source{file: file, fileCount: summary.Files, size: summary.Bytes}
	switch {
	case summary.TextBytes > maxInlineBytes, len(archive.TextFiles()) < summary.TextFiles:
		s.reason = aggregationv1alpha1.ReasonFilesTooLarge
		s.problem = fmt.Sprintf("the source has %d bytes of text, and at most %d can be shown in spec.files; the largest file is %q with %d bytes; read it all through codertemplates/files",
			summary.TextBytes, maxInlineBytes, summary.Largest, summary.LargestBytes)
	case summary.TextFiles == 0:
		s.reason = aggregationv1alpha1.ReasonFilesUnreadable
		s.problem = fmt.Sprintf("none of the %d files of the source is text; read them through codertemplates/files", summary.Files)
	default:
		s.files, s.inline = archive.TextFiles(), summary.TextFiles == summary.Files
	}
	return s
}

// readSource reads the source of a version. If the previous object shows the same archive, its text
// is reused, because an archive never changes. An error means that the request may succeed later.
// If the archive is unreadable, the source has a problem, and it is read again if fresh is true.
func readSource(
	ctx context.Context, connection connections.Connection, file uuid.UUID, previous *aggregationv1alpha1.CoderTemplate, fresh bool,
) (source, error) {
	if known, ok := shownIn(previous, file); ok && (!fresh || known.fileCount != 0) {
		return known, nil
	}
	archive, err := connection.Client.DownloadText(ctx, file, maxInlineBytes)
	switch {
	case err == nil:
		return sourceOf(file, archive), nil
	case passing(err):
		return source{}, err
	default:
		return source{
			file:    file,
			reason:  aggregationv1alpha1.ReasonFilesUnreadable,
			problem: fmt.Sprintf("the source of the version cannot be shown: %v", err),
		}, nil
	}
}

// shownIn returns the source that an object shows, if it is from that archive.
func shownIn(tmpl *aggregationv1alpha1.CoderTemplate, file uuid.UUID) (source, bool) {
	if tmpl == nil || tmpl.Status.Source == nil || tmpl.Status.Source.FileID != file.String() {
		return source{}, false
	}
	shown := tmpl.Status.Source
	s := source{file: file, inline: shown.Inline, fileCount: int(shown.FileCount), size: shown.SizeBytes}
	c := meta.FindStatusCondition(tmpl.Status.Conditions, aggregationv1alpha1.ConditionFilesAvailable)
	if c != nil && c.Status == metav1.ConditionFalse {
		s.reason, s.problem = c.Reason, c.Message
		return s, true
	}
	s.files = tmpl.Spec.Files
	return s, true
}

// passing reports whether the same request may succeed later.
func passing(err error) bool {
	return coderd.IsUnreachable(err) || coderd.IsRateLimited(err) || coderd.IsUnauthorized(err)
}

// showing returns an object that shows a source, for readSource.
func showing(s source) *aggregationv1alpha1.CoderTemplate {
	tmpl := &aggregationv1alpha1.CoderTemplate{
		Spec: aggregationv1alpha1.CoderTemplateSpec{Files: s.files},
		Status: aggregationv1alpha1.CoderTemplateStatus{Source: &aggregationv1alpha1.TemplateSource{
			FileID: s.file.String(), Inline: s.inline, FileCount: int32(s.fileCount), SizeBytes: s.size, //nolint:gosec // See statusOf.
		}},
	}
	if s.problem != "" {
		tmpl.Status.Conditions = []metav1.Condition{{
			Type: aggregationv1alpha1.ConditionFilesAvailable, Status: metav1.ConditionFalse, Reason: s.reason, Message: s.problem,
		}}
	}
	return tmpl
}
