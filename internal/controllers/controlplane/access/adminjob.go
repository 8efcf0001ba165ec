package access

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/podproblem"
)

const (
	firstJobRetry = time.Minute
	lastJobRetry  = 30 * time.Minute
)

// accountByJob creates the operator's account in a Coder that already has users and in which the
// operator has no account: a Job runs Coder's own command, which writes the account into the
// database.
func (p *pass) accountByJob(ctx context.Context, creds *account) (*session, error) {
	fresh := !creds.complete() || creds.madeBy() != BootstrapAdminJob
	if fresh {
		var err error
		if creds, err = p.newCredentials(ctx, creds, BootstrapAdminJob); err != nil {
			return nil, err
		}
	}
	job, err := p.readJob(ctx)
	switch {
	case err != nil:
		return nil, err
	case job == nil:
	case !job.DeletionTimestamp.IsZero():
		return nil, ensure.Waits(coderv1alpha1.ReasonAdminJobRunning, soon, "waiting for an older Job %q to be gone", job.Name)
	case job.Annotations[AnnotationGeneration] != p.generation():
		// The change may have fixed the cause of a failure.
		return nil, p.restartJob(ctx, "the spec changed")
	case podproblem.JobEnd(job) == "":
		return nil, jobRunning(job)
	case fresh:
		// The Job created, or tried to create, an account with older credentials.
		return nil, p.restartJob(ctx, "its credentials changed")
	}
	recorded := job != nil && creds.annotation(AnnotationFailedJob) == string(job.UID)
	if recorded {
		// An invalid time is zero. Another replica, whose clock may be ahead, may have written it.
		at, _ := time.Parse(time.RFC3339, creds.annotation(AnnotationJobRetryAt))
		if left := at.Sub(p.Clock.Now()); left > 0 && left <= 2*lastJobRetry {
			return nil, p.jobFailed(ctx, creds, job, left)
		}
	}
	if !fresh {
		s, err := p.login(ctx, creds)
		if !coderd.IsUnauthorized(err) {
			return s, p.loginFailure(creds, err)
		}
	}
	if job == nil {
		return nil, p.startJob(ctx)
	}
	if !recorded {
		return nil, p.noteFailure(ctx, creds, job)
	}
	return nil, p.restartJob(ctx, "it failed before")
}

// restartJob deletes the Job. The next pass creates it again.
func (p *pass) restartJob(ctx context.Context, why string) error {
	if err := p.deleteJob(ctx); err != nil {
		return err
	}
	return ensure.Waits(coderv1alpha1.ReasonAdminJobRunning, time.Second, "the Job that creates the operator's account is being restarted: %s", why)
}

func (p *pass) readJob(ctx context.Context) (*batchv1.Job, error) {
	key := client.ObjectKeyFromObject(p.req.AdminJob(CredentialsSecretName(p.cp)))
	job := &batchv1.Job{}
	err := p.Client.Get(ctx, key, job)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Job %q: %w", key.Name, err)
	case !metav1.IsControlledBy(job, p.cp):
		return nil, p.secrets.Taken("Job", job, retryFailed, renameIt)
	}
	return job, nil
}

func (p *pass) startJob(ctx context.Context) error {
	job := p.req.AdminJob(CredentialsSecretName(p.cp))
	ensure.Annotate(job, map[string]string{AnnotationGeneration: p.generation()})
	if err := controllerutil.SetControllerReference(p.cp, job, p.Client.Scheme()); err != nil {
		return fmt.Errorf("owning Job %q: %w", job.Name, err)
	}
	if err := p.Client.Create(ctx, job); err != nil {
		return fmt.Errorf("creating Job %q: %w", job.Name, err)
	}
	p.result.Events.Normal(coderv1alpha1.ReasonAdminJobRunning,
		fmt.Sprintf("started Job %q, which creates the operator's account, because Coder already has users", job.Name))
	return jobRunning(job)
}

// deleteJob deletes the Job and its pods, if this control plane owns it.
func (p *pass) deleteJob(ctx context.Context) error {
	job, err := p.readJob(ctx)
	if err != nil || job == nil {
		return err
	}
	err = p.Client.Delete(ctx, job, client.Preconditions{UID: new(job.UID)}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting Job %q: %w", job.Name, err)
	}
	return nil
}

// noteFailure records that a Job failed and when the next one starts: after one minute, and after
// each further failure twice as long, up to 30 minutes.
func (p *pass) noteFailure(ctx context.Context, creds *account, job *batchv1.Job) error {
	failures, err := strconv.Atoi(creds.annotation(AnnotationJobFailures))
	if err != nil || failures < 0 {
		failures = 0
	}
	delay := min(firstJobRetry<<min(failures, 10), lastJobRetry)
	stopped := p.jobFailed(ctx, creds, job, delay)
	err = p.setCredentials(ctx, creds, map[string]string{
		AnnotationFailedJob:   string(job.UID),
		AnnotationJobFailures: strconv.Itoa(failures + 1),
		AnnotationJobRetryAt:  p.Clock.Now().Add(delay).UTC().Format(time.RFC3339),
	})
	if err != nil {
		return err
	}
	p.result.Events.Warning(coderv1alpha1.ReasonAdminJobFailed, stopped.Error())
	return stopped
}

func jobRunning(job *batchv1.Job) error {
	return ensure.Waits(coderv1alpha1.ReasonAdminJobRunning, soon,
		"Coder already has users; Job %q is creating the operator's account", job.Name)
}

func (p *pass) generation() string { return strconv.FormatInt(p.cp.Generation, 10) }

// jobFailed returns an error with the reason why a Job created no working account, and how to fix
// it.
func (p *pass) jobFailed(ctx context.Context, creds *account, job *batchv1.Job, after time.Duration) error {
	if podproblem.JobEnd(job) == batchv1.JobComplete {
		return ensure.Fails(coderv1alpha1.ReasonAdminJobFailed, after,
			"Job %q succeeded, but Coder does not accept the account that it created; "+
				"check that it wrote to the database of this Coder: the connection URL is %s", job.Name, p.req.DatabaseURL)
	}
	return ensure.Fails(coderv1alpha1.ReasonAdminJobFailed, after,
		"Job %q could not create the operator's account in Coder: %s. The operator retries automatically; "+
			"alternatively, give the operator a token in spec.operatorAccess.tokenSecretRef",
		job.Name, p.jobCause(ctx, creds, job))
}

// jobCause derives the cause of a failed Job from the termination message of its container, or else
// from the Job's condition.
func (p *pass) jobCause(ctx context.Context, creds *account, job *batchv1.Job) string {
	pods := &corev1.PodList{}
	err := p.Client.List(ctx, pods, client.InNamespace(job.Namespace), client.MatchingLabels{batchv1.JobNameLabel: job.Name}, client.Limit(20))
	if err != nil {
		log.FromContext(ctx).V(1).Info("Could not list the pods of a failed Job", "job", job.Name, "error", err.Error())
	}
	said := ""
	for i := range pods.Items {
		for _, c := range pods.Items[i].Status.ContainerStatuses {
			for _, state := range []corev1.ContainerState{c.State, c.LastTerminationState} {
				if state.Terminated != nil && state.Terminated.Message != "" {
					said = state.Terminated.Message
				}
			}
		}
	}
	switch {
	case strings.Contains(said, "duplicate key") && strings.Contains(said, "users"):
		return fmt.Sprintf("a user named %q exists already and has another password; delete Secret %q, and the operator uses another name",
			creds.username, CredentialsSecretName(p.cp))
	case strings.Contains(said, "connect to postgres"), strings.Contains(said, "ping postgres"):
		return "it cannot reach the database; the connection URL is " + p.req.DatabaseURL
	case strings.Contains(said, "built-in PostgreSQL"):
		return "it has no connection URL of a database; set spec.database"
	}
	if line := quotable(said, creds.password); line != "" {
		return fmt.Sprintf("it reported %q", line)
	}
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobFailed && c.Message != "" {
			return fmt.Sprintf("%s (see `kubectl logs -n %s job/%s`)", strings.TrimSuffix(c.Message, "."), job.Namespace, job.Name)
		}
	}
	return fmt.Sprintf("see `kubectl logs -n %s job/%s`", job.Namespace, job.Name)
}

// quotable returns the last line of a container's message. It returns an empty string if the line
// may contain a secret: a URL, which may include a password, or the password itself.
func quotable(said, password string) string {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	line := strings.TrimSpace(lines[len(lines)-1])
	lower := strings.ToLower(line)
	for _, risky := range []string{"://", "password", "secret", "token"} {
		if strings.Contains(lower, risky) {
			return ""
		}
	}
	if strings.Contains(line, password) || len(line) > 200 {
		return ""
	}
	return line
}
