package access

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/uuid"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure/ensuretest"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/podproblem"
)

const (
	testName = "dev"
	jobName  = "dev-create-admin"
)

// fixture is a cluster, a Coder and a Manager.
type fixture struct {
	*ensuretest.Fixture
	manager *Manager
	cp      *coderv1alpha1.CoderControlPlane
	random  int
	// ada is the token of a human user with the role owner, if there is one.
	ada string
	// secrets contains all passwords and tokens that were ever used.
	secrets map[string]bool
}

// knownKinds are the kinds that the cluster supports.
var knownKinds = kubetest.KindsOf(corev1.AddToScheme, batchv1.AddToScheme, coderv1alpha1.AddToScheme)

func newFixture(t *testing.T, opts ...coderdtest.Option) *fixture {
	t.Helper()
	f := &fixture{
		Fixture: ensuretest.New(t, knownKinds, opts...), secrets: map[string]bool{},
		cp: &coderv1alpha1.CoderControlPlane{
			ObjectMeta: metav1.ObjectMeta{Namespace: ensuretest.Namespace, Name: testName, UID: "cp-uid", Generation: 1},
		},
	}
	f.restart()
	return f
}

// restart replaces the Manager by one with empty caches, as after a restart of the process.
func (f *fixture) restart() {
	f.Fault.Set(0, false)
	f.manager = &Manager{
		Client: f.Cluster, Clock: f.Clock,
		Random: func() (string, error) {
			f.random++
			password := fmt.Sprintf("P4ssw0rdThatNobodyMaySee%04d", f.random)
			f.secrets[password] = true
			return password, nil
		},
		NewClient: func(cfg coderd.Config) (*coderd.Client, error) {
			f.secrets[cfg.Token] = true
			return f.NewClient(cfg)
		},
	}
}

func (f *fixture) request() Request {
	return Request{ControlPlane: f.cp, URL: f.Coder.URL, DatabaseURL: `key "url" of Secret "db"`, AdminJob: func(secret string) *batchv1.Job {
		return &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: jobName, Namespace: ensuretest.Namespace},
			Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "coder", EnvFrom: []corev1.EnvFromSource{{
					SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: secret}},
				}}}},
			}}},
		}
	}}
}

// pass runs Ensure once, and checks that its texts contain no secret.
func (f *fixture) pass() Result { return f.run(f.manager.Ensure) }

func (f *fixture) revoke() Result { return f.run(f.manager.Revoke) }

func (f *fixture) run(do func(context.Context, Request) (Result, error)) Result {
	f.T.Helper()
	result, err := do(f.Ctx, f.request())
	f.CheckSilence(f.secrets, result.Events, result.Message, err)
	f.Must(err)
	return result
}

// settle runs passes, and Jobs between them, until one is Ready.
func (f *fixture) settle() Result {
	f.T.Helper()
	var result Result
	for range 12 {
		if result = f.pass(); result.State == ensure.Ready {
			return result
		}
		f.runJob()
		f.Forward(result.RequeueAfter)
	}
	f.T.Fatalf("not Ready after 12 passes: %s %s: %s", result.State, result.Reason, result.Message)
	return result
}

// addAda adds a human user, so that Coder has users.
func (f *fixture) addAda() {
	f.ada = f.Coder.AddUser("ada", "owner")
	f.secrets[f.ada] = true
}

// as returns a client of Coder that is not affected by faults.
func (f *fixture) as(token string) *coderd.Client { return f.As(f.Coder.URL, token) }

// addUser creates an account in Coder, as another user would.
func (f *fixture) addUser(username, email, password string, roles ...string) error {
	f.T.Helper()
	ada := f.as(f.ada)
	org, err := ada.OrganizationByName(f.Ctx, coderd.DefaultOrganization)
	f.Must(err)
	_, err = ada.CreateUser(f.Ctx, coderd.NewUser{
		Username: username, Email: email, Password: password, OrganizationIDs: []uuid.UUID{org.ID},
	})
	if err != nil {
		return err
	}
	return ada.SetRoles(f.Ctx, username, roles)
}

// runJob does the work of the Job's container, if there is a Job.
func (f *fixture) runJob() {
	f.T.Helper()
	job := &batchv1.Job{}
	if !f.Has(jobName, job) || podproblem.JobEnd(job) != "" {
		return
	}
	creds := readAccount(f.Secret(job.Spec.Template.Spec.Containers[0].EnvFrom[0].SecretRef.Name))
	outcome := batchv1.JobComplete
	if err := f.addUser(creds.username, creds.email, creds.password, "owner"); err != nil {
		outcome = batchv1.JobFailed
	}
	f.endJob(job, outcome)
}

func (f *fixture) endJob(job *batchv1.Job, outcome batchv1.JobConditionType) {
	f.T.Helper()
	job.Status.Conditions = []batchv1.JobCondition{{
		Type: outcome, Status: corev1.ConditionTrue, Message: "Job has reached the specified backoff limit",
	}}
	f.Must(f.Cluster.Status().Update(f.Ctx, job))
}

// token returns the token in the operator's Secret.
func (f *fixture) token() string {
	f.T.Helper()
	return string(f.Secret("dev-operator-token").Data["token"])
}
