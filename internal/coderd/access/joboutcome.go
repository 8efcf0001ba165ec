package access

import (
	"context"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure"
)

const longestQuote = 200

// jobEnd returns how a Job ended: Complete or Failed. It returns an empty string while the Job
// runs.
func jobEnd(job *batchv1.Job) batchv1.JobConditionType {
	for _, c := range job.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			return c.Type
		}
	}
	return ""
}

// jobFailed returns an error with the reason why a Job created no working account, and how to fix
// it.
func (p *pass) jobFailed(ctx context.Context, creds *account, job *batchv1.Job, after time.Duration) error {
	if jobEnd(job) == batchv1.JobComplete {
		return ensure.Fails(coderv1alpha1.ReasonAdminJobFailed, after,
			"Job %q ended well, yet Coder does not accept the account that it made; "+
				"check that %s is the database of this Coder", job.Name, EnvPostgresURL)
	}
	return ensure.Fails(coderv1alpha1.ReasonAdminJobFailed, after,
		"Job %q could not make the operator's account in Coder: %s. It is tried again by itself; "+
			"instead you can give the operator a token in spec.operatorAccess.tokenSecretRef",
		job.Name, p.jobCause(ctx, creds, job))
}

// jobCause derives the cause of a failed Job from the termination message of its container, or else
// from the Job's condition.
func (p *pass) jobCause(ctx context.Context, creds *account, job *batchv1.Job) string {
	said := p.lastWords(ctx, job)
	switch {
	case strings.Contains(said, "duplicate key") && strings.Contains(said, "users"):
		return fmt.Sprintf("a user named %q exists already and has another password; delete Secret %q, and the operator uses another name",
			creds.username, CredentialsSecretName(p.cp))
	case strings.Contains(said, "connect to postgres"), strings.Contains(said, "ping postgres"):
		return fmt.Sprintf("it cannot reach the database of %s", EnvPostgresURL)
	case strings.Contains(said, "built-in PostgreSQL"):
		return fmt.Sprintf("the environment of coderd has no %s", EnvPostgresURL)
	}
	if line := quotable(said, creds.password); line != "" {
		return fmt.Sprintf("it said %q", line)
	}
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobFailed && c.Message != "" {
			return fmt.Sprintf("%s (see `kubectl logs -n %s job/%s`)", strings.TrimSuffix(c.Message, "."), job.Namespace, job.Name)
		}
	}
	return fmt.Sprintf("see `kubectl logs -n %s job/%s`", job.Namespace, job.Name)
}

// lastWords returns the termination message of the Job's container, or an empty string if there is
// none.
func (p *pass) lastWords(ctx context.Context, job *batchv1.Job) string {
	pods := &corev1.PodList{}
	err := p.Client.List(ctx, pods, client.InNamespace(job.Namespace), client.MatchingLabels{batchv1.JobNameLabel: job.Name}, client.Limit(20))
	if err != nil {
		log.FromContext(ctx).V(1).Info("Not looking at the pods of a failed Job", "job", job.Name, "error", err.Error())
		return ""
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
	return said
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
	if strings.Contains(line, password) || len(line) > longestQuote {
		return ""
	}
	return line
}
