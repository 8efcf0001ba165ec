package objectevents

import (
	"fmt"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// ofTemplate returns the occurrences between two states of a template.
func ofTemplate(before, after *aggregationv1alpha1.CoderTemplate) []occurrence {
	var all []occurrence
	was, is := before.Status, after.Status
	if is.LatestVersionStatus == "failed" && (was.LatestVersionID != is.LatestVersionID || was.LatestVersionStatus != is.LatestVersionStatus) {
		all = append(all, occurrence{
			reason: aggregationv1alpha1.ReasonBuildFailed, action: actionBuild, warning: true, key: is.LatestVersionID,
			note: fmt.Sprintf("building version %q failed: %s", is.LatestVersionName, is.LatestVersionError),
		})
	}
	if was.ActiveVersionID != "" && was.ActiveVersionID != is.ActiveVersionID {
		at := ""
		if is.UpdatedAt != nil {
			at = fmt.Sprint(is.UpdatedAt.Unix())
		}
		all = append(all, occurrence{
			reason: aggregationv1alpha1.ReasonVersionPromoted, action: actionPromote, key: is.ActiveVersionID + at,
			note: fmt.Sprintf("version %q is active, in place of %q", is.ActiveVersionName, was.ActiveVersionName),
		})
	}
	return all
}
