package prompts

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/diagnosis"
)

const diagnosisTask = `%s %s/%s was examined with the rights of the person who asks. The report follows.
Say in a few sentences what is most likely wrong, which evidence shows it, and what to do, in order. Check the conclusion of the
report against its conditions, events and log lines. Where its gaps may hide the cause, say which right is missing. Where more must
be known, call the tools that nextTools names. Propose each change before you make it.

%s`

func diagnoseControlPlane(ctx context.Context, kube *callers.Kube, of subject) (string, error) {
	report, err := diagnosis.ControlPlane(ctx, kube, of.namespace, of.name)
	return diagnosisPrompt("CoderControlPlane", of, report, err)
}

func diagnoseWorkspace(ctx context.Context, kube *callers.Kube, of subject) (string, error) {
	report, err := diagnosis.Workspace(ctx, kube, of.namespace, of.name)
	return diagnosisPrompt("CoderWorkspace", of, report, err)
}

func diagnosisPrompt(kind string, of subject, report *diagnosis.Report, err error) (string, error) {
	if err != nil {
		return "", err
	}
	raw, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return "", fmt.Errorf("writing a report: %w", err)
	}
	return fmt.Sprintf(diagnosisTask, kind, of.namespace, of.name, block("the report", "json", string(raw))), nil
}
