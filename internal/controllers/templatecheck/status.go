package templatecheck

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// longestNote is the maximum length of an Event's note in bytes.
const longestNote = 1024

// write writes the status if it changed. It fails if the object was changed since it was read.
func (p *pass) write(ctx context.Context) error {
	p.test.Status.ObservedGeneration = p.test.Generation
	if equality.Semantic.DeepEqual(p.read.Status, p.test.Status) {
		return nil
	}
	if err := p.kit.Client.Status().Patch(ctx, p.test, framework.LockedPatch(p.read)); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	p.read = p.test.DeepCopy()
	return nil
}

// set sets a condition. The message may contain texts of Coder.
func (p *pass) set(c metav1.Condition) {
	c.Message = framework.Redact(c.Message)
	c.ObservedGeneration, c.LastTransitionTime = p.test.Generation, metav1.Time{Time: p.now}
	meta.SetStatusCondition(&p.test.Status.Conditions, c)
}

// waiting sets the conditions of a test that has no result yet.
func (p *pass) waiting(stop *ensure.Stop) {
	p.test.Status.Phase = coderv1alpha1.TemplateTestPending
	if p.test.Status.StartTime != nil {
		p.test.Status.Phase = coderv1alpha1.TemplateTestRunning
		p.set(framework.ConditionFalse(coderv1alpha1.ConditionWorkspaceDeleted, coderv1alpha1.ReasonWorkspaceNeeded, "the test runs"))
	}
	p.set(framework.ConditionFalse(coderv1alpha1.ConditionReady, stop.Reason, stop.Message))
	p.set(framework.ConditionTrue(coderv1alpha1.ConditionReconciling, stop.Reason, stop.Message))
	p.set(framework.ConditionFalse(coderv1alpha1.ConditionFinished, stop.Reason, stop.Message))
}

// finish sets the result. A nil failure is success.
func (p *pass) finish(failure *ensure.Stop) {
	status := &p.test.Status
	status.CompletionTime = &metav1.Time{Time: p.now}
	meta.RemoveStatusCondition(&status.Conditions, coderv1alpha1.ConditionReconciling)
	if failure == nil {
		status.Phase = coderv1alpha1.TemplateTestSucceeded
		const message = "all checks passed"
		p.set(framework.ConditionTrue(coderv1alpha1.ConditionReady, coderv1alpha1.ReasonTestSucceeded, message))
		p.set(framework.ConditionTrue(coderv1alpha1.ConditionFinished, coderv1alpha1.ReasonTestSucceeded, message))
		return
	}
	status.Phase, status.FailedCheck = coderv1alpha1.TemplateTestFailed, p.check
	p.set(framework.ConditionFalse(coderv1alpha1.ConditionReady, failure.Reason, failure.Message))
	p.set(framework.ConditionTrue(coderv1alpha1.ConditionStalled, failure.Reason, failure.Message))
	p.set(framework.ConditionTrue(coderv1alpha1.ConditionFinished, failure.Reason, failure.Message))
	if status.StartTime == nil || p.first && status.WorkspaceID == "" {
		p.deleted(coderv1alpha1.ReasonWorkspaceNeverCreated, "Coder created no workspace for the test")
	}
}

// reasonOf returns the reason of a condition, or an empty string if there is none.
func reasonOf(test *coderv1alpha1.CoderTemplateTest, conditionType string) string {
	return ptr.Deref(meta.FindStatusCondition(test.Status.Conditions, conditionType), metav1.Condition{}).Reason
}

// deleted records that there is no workspace.
func (p *pass) deleted(reason, message string) {
	p.set(framework.ConditionTrue(coderv1alpha1.ConditionWorkspaceDeleted, reason, message))
}

func (p *pass) event(kind, reason, note string) {
	p.kit.Recorder.Eventf(p.test, nil, kind, reason, "Test", "%s", redaction.Truncate(framework.Redact(note), longestNote))
}
