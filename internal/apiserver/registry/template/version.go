package template

import "github.com/coder-k8s/coder-k8s/internal/coderd"

// Statuses of a version's build.
const (
	buildPending   = "pending"
	buildSucceeded = "succeeded"
	buildFailed    = "failed"
	buildCanceled  = "canceled"
)

// failed says that the build will not change any more without having succeeded.
func failed(v coderd.TemplateVersion) bool {
	return v.Status == buildFailed || v.Status == buildCanceled
}

// ended says that the build will not change any more.
func ended(v coderd.TemplateVersion) bool { return failed(v) || v.Status == buildSucceeded }

// building says that the build will change.
func building(v coderd.TemplateVersion) bool { return !ended(v) }
