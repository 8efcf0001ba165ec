package framework

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/podproblem"
)

// JobRun is the observed state of a Job.
type JobRun struct {
	Job *batchv1.Job
	// Ended is how the Job ended: Complete or Failed. It is empty while the Job runs.
	Ended batchv1.JobConditionType
	// Result is the termination message of the newest container that wrote one, as name=value lines.
	Result map[string]string
	// Pods are the pods of the Job, oldest first.
	Pods []corev1.Pod
	// Trouble is the reason why a running Job does not progress, or nil.
	Trouble *Problem
}

// RunJob creates a Job of the object, unless it exists, and returns its state. A Job has a fixed
// name, so there is never a second one. An existing Job is not changed.
func (t *Toolkit) RunJob(ctx context.Context, p *Pass, desired *batchv1.Job) (*JobRun, error) {
	job, err := t.OwnJob(ctx, p, desired.Name)
	if err != nil {
		return nil, err
	}
	if job == nil {
		job = desired.DeepCopy()
		if err := controllerutil.SetControllerReference(p.Object, job, t.Client.Scheme()); err != nil {
			return nil, fmt.Errorf("owning Job %q: %w", job.Name, err)
		}
		err := t.Client.Create(ctx, job)
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil, err
		}
		if err != nil {
			_, ended := applyTrouble(fmt.Errorf("creating Job %q: %w", job.Name, err))
			return nil, ended
		}
	}
	run := &JobRun{Job: job, Ended: podproblem.JobEnd(job)}
	list := &corev1.PodList{}
	if err := t.Live.List(ctx, list, client.InNamespace(job.Namespace), client.MatchingLabels{batchv1.JobNameLabel: job.Name}); err != nil {
		return nil, fmt.Errorf("listing the pods of Job %q: %w", job.Name, err)
	}
	run.Pods = slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return !metav1.IsControlledBy(&pod, job) })
	slices.SortFunc(run.Pods, oldestFirst)
	for i := range run.Pods {
		for _, status := range slices.Concat(run.Pods[i].Status.InitContainerStatuses, run.Pods[i].Status.ContainerStatuses) {
			if ended := podproblem.LastTermination(&status); ended != nil && ended.Message != "" {
				run.Result = lines(ended.Message)
			}
		}
	}
	if run.Ended == "" && len(run.Pods) > 0 {
		for _, look := range []func(*corev1.Pod) *Problem{
			troubleOf(podproblem.FindConfig, coderv1alpha1.ReasonContainerConfigInvalid), imageTrouble,
			troubleOf(podproblem.FindUnschedulable, coderv1alpha1.ReasonUnschedulable),
		} {
			run.Trouble = cmp.Or(run.Trouble, look(&run.Pods[len(run.Pods)-1]))
		}
	}
	return run, nil
}

// OwnJob returns a Job of the object, or nil if there is none.
func (t *Toolkit) OwnJob(ctx context.Context, p *Pass, name string) (*batchv1.Job, error) {
	job := &batchv1.Job{}
	err := t.Live.Get(ctx, client.ObjectKey{Namespace: p.Object.GetNamespace(), Name: name}, job)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Job %q: %w", name, err)
	case !metav1.IsControlledBy(job, p.Object):
		return nil, ensure.Waits(coderv1alpha1.ReasonNotOwned, RetryInterval,
			"Job %q in namespace %q belongs to another owner and was not changed; delete or rename one of the two", name, job.Namespace)
	}
	return job, nil
}

// DeleteJob deletes a Job of the object with its pods. It returns a Stop until they are gone.
func (t *Toolkit) DeleteJob(ctx context.Context, p *Pass, name string) error {
	job, err := t.OwnJob(ctx, p, name)
	if job == nil || err != nil {
		return err
	}
	if job.DeletionTimestamp.IsZero() {
		err = t.Client.Delete(ctx, job, client.Preconditions{UID: &job.UID}, client.PropagationPolicy(metav1.DeletePropagationForeground))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting Job %q: %w", name, err)
		}
	}
	return ensure.Waits(coderv1alpha1.ReasonWaiting, ConflictInterval, "waiting until Job %q is deleted", name)
}

// FailureOf returns why a Job failed. Reasons of the result that are not in known become fallback.
func (r *JobRun) FailureOf(fallback string, known ...string) *Problem {
	reason, message := r.Result["reason"], r.Result["message"]
	for _, c := range r.Job.Status.Conditions {
		switch {
		case c.Type != batchv1.JobFailed || c.Status != corev1.ConditionTrue:
		case c.Reason == batchv1.JobReasonDeadlineExceeded:
			reason, message = coderv1alpha1.ReasonDeadlineExceeded, "it was not complete in time; raise activeDeadlineSeconds"
		case message == "":
			message = c.Message
		}
	}
	if !slices.Contains(append(known, coderv1alpha1.ReasonDeadlineExceeded), reason) {
		reason = fallback
	}
	return &Problem{reason, Redact(cmp.Or(message, "see its log")) + fmt.Sprintf(" (kubectl logs -n %s job/%s)", r.Job.Namespace, r.Job.Name)}
}

// lines returns the name=value lines of a text.
func lines(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			all[name] = value
		}
	}
	return all
}
