package diagnosis

import "fmt"

func missingTemplate(f *workspaceFacts) []conclusion {
	if !f.templateMissing {
		return nothing()
	}
	return one(Finding{
		Severity: severityWarning, Where: "CoderTemplate/" + templateName(f.object),
		What: "there is no template of that name any more, so the workspace cannot get a newer version",
		Do:   "see with list_templates whether it was renamed or deleted",
	}, Next{Tool: "list_templates", Arguments: map[string]any{"namespace": f.object.Namespace}})
}

// brokenTemplate reports a template whose newest version failed to build.
func brokenTemplate(f *workspaceFacts) []conclusion {
	if f.template == nil || f.template.Status.LatestVersionStatus != versionFailed {
		return nothing()
	}
	return []conclusion{failedVersion(failedTemplate{f.template, f.versionLog})}
}

// failedVersion returns the conclusion about a template whose newest version failed to
// build.
func failedVersion(t failedTemplate) conclusion {
	status := t.object.Status
	what, shown, do := failedBuild(status.LatestVersionError, t.log)
	says := fmt.Sprintf("building its newest version %s failed: %s", orUnknown(status.LatestVersionName), what)
	if status.ActiveVersionName != "" && status.ActiveVersionID != status.LatestVersionID {
		says += fmt.Sprintf("; version %s stays active", status.ActiveVersionName)
	}
	return conclusion{
		Finding: Finding{Severity: severityWarning, Where: "CoderTemplate/" + t.object.Name, What: says, Evidence: shown, Do: do},
		next: []Next{
			{Tool: "get_build_logs", Arguments: map[string]any{"namespace": t.object.Namespace, "template": t.object.Name}},
			{Tool: "get_template", Arguments: map[string]any{"namespace": t.object.Namespace, "name": t.object.Name}},
		},
	}
}

func deprecatedTemplate(f *workspaceFacts) []conclusion {
	if f.template == nil || !f.template.Status.Deprecated {
		return nothing()
	}
	return one(Finding{
		Severity: severityInfo, Where: "CoderTemplate/" + f.template.Name, What: "the template is deprecated: no new workspace can be made from it",
		Evidence: evidence(f.template.Status.DeprecationMessage), Do: "make a workspace from another template",
	})
}

// failedVersions reports the control plane's templates whose newest version failed to
// build.
func failedVersions(f *controlPlaneFacts) []conclusion {
	var all []conclusion
	for _, t := range f.templates {
		all = append(all, failedVersion(t))
	}
	return all
}
