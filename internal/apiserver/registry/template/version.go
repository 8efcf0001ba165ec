package template

import "github.com/coder-k8s/coder-k8s/internal/coderd"

// Messages of the versions that we make. They say what is to be done.
const (
	messagePrefix     = "coder-k8s: "
	messageFirst      = messagePrefix + "first version"
	messagePending    = messagePrefix + "promote when built"
	messagePromoted   = messagePrefix + "promoted"
	messageFailed     = messagePrefix + "build failed"
	messageSuperseded = messagePrefix + "superseded"
)

// Statuses of a version's build.
const (
	buildPending   = "pending"
	buildRunning   = "running"
	buildSucceeded = "succeeded"
	buildFailed    = "failed"
	buildCanceled  = "canceled"
)

// isWanted says that the version shall be, or should have become, the active
// one.
func isWanted(v coderd.TemplateVersion) bool {
	return v.Message == messagePending || v.Message == messageFailed
}

// ended says that the build will not change any more without having succeeded.
func ended(v coderd.TemplateVersion) bool {
	return v.Status == buildFailed || v.Status == buildCanceled
}

// shownOf gives the version whose source is the template's: the newest wanted
// one that is newer than the active one, or the active one. Versions come with
// the oldest first.
func shownOf(versions []coderd.TemplateVersion, active coderd.TemplateVersion) coderd.TemplateVersion {
	for i := len(versions) - 1; i >= 0; i-- {
		v := versions[i]
		if !v.CreatedAt.After(active.CreatedAt) {
			break
		}
		if isWanted(v) {
			return v
		}
	}
	return active
}
