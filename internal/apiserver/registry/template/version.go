package template

import "github.com/coder-k8s/coder-k8s/internal/coderd"

// Statuses of a version's build.
const (
	buildPending   = "pending"
	buildSucceeded = "succeeded"
	buildFailed    = "failed"
	buildCanceled  = "canceled"
)

// failed reports whether the build has finished without success.
func failed(v coderd.TemplateVersion) bool {
	return v.Status == buildFailed || v.Status == buildCanceled
}

// ended reports whether the build has finished.
func ended(v coderd.TemplateVersion) bool { return failed(v) || v.Status == buildSucceeded }

// building reports whether the build has not finished.
func building(v coderd.TemplateVersion) bool { return !ended(v) }
