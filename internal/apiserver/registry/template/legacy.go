package template

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// Messages with which an earlier version of this program marked versions in Coder. Versions with
// these marks are still processed.
const (
	messagePrefix     = "coder-k8s: "
	messagePending    = messagePrefix + "promote when built"
	messagePromoted   = messagePrefix + "promoted"
	messageFailed     = messagePrefix + "build failed"
	messageSuperseded = messagePrefix + "superseded"
)

// marked reports whether the version was to become active, and has not been promoted or superseded.
func marked(v coderd.TemplateVersion) bool {
	return v.Message == messagePending || v.Message == messageFailed
}

// markedShown returns the marked version whose source is shown: the newest marked one that is newer
// than the active one. Versions are sorted with the oldest first.
func markedShown(p page) (coderd.TemplateVersion, bool) {
	for i := len(p.versions) - 1; i >= 0; i-- {
		v := p.versions[i]
		if !v.CreatedAt.After(p.active.CreatedAt) {
			break
		}
		if marked(v) {
			return v, true
		}
	}
	return coderd.TemplateVersion{}, false
}

// settleMarked processes the marked versions of a template. Only the newest pending one may become
// active. Older ones, and those older than the active one, are superseded. If a release is
// requested, all are superseded.
func (k *Kind) settleMarked(ctx context.Context, connection connections.Connection, t coderd.Template, p page, overtaken bool) (changed bool, err error) {
	client := connection.Client
	for i := len(p.versions) - 1; i >= 0; i-- {
		v := p.versions[i]
		if v.Message != messagePending {
			continue
		}
		message := nextMark(v, p.active, overtaken)
		overtaken = true
		if message == "" {
			continue
		}
		if message == messagePromoted && v.ID != p.active.ID {
			if err := client.SetActiveVersion(ctx, t.ID, v.ID); err != nil {
				return changed, err
			}
		}
		if err := client.SetVersionMessage(ctx, v.ID, message); err != nil {
			return true, err
		}
		changed = true
		log.FromContext(ctx).Info("Settling a template version", "controlPlane", connection.ControlPlane,
			"template", t.Name, "version", v.Name, "result", message)
	}
	return changed, nil
}

// nextMark returns the new message of a pending version, or "" if its build has not finished.
func nextMark(v, active coderd.TemplateVersion, overtaken bool) string {
	switch {
	case v.ID == active.ID:
		return messagePromoted
	case overtaken || !v.CreatedAt.After(active.CreatedAt):
		return messageSuperseded
	case v.Status == buildSucceeded:
		return messagePromoted
	case failed(v):
		return messageFailed
	default:
		return ""
	}
}
