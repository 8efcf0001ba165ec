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
	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure/ensuretest"
	"github.com/coder-k8s/coder-k8s/internal/kube/apply/applytest"
)

const (
	testName = "dev"
	jobName  = "dev-create-admin"
)

// world is the fixture: a cluster, a Coder and a Manager.
type world struct {
	*ensuretest.World
	manager *Manager
	cp      *coderv1alpha1.CoderControlPlane
	random  int
	// ada is the token of a human user with the role owner, if there is one.
	ada string
	// secrets contains all passwords and tokens that were ever used.
	secrets map[string]bool
}

// knownKinds are the kinds that the cluster supports.
var knownKinds = applytest.KindsOf(corev1.AddToScheme, batchv1.AddToScheme, coderv1alpha1.AddToScheme)

func newWorld(t *testing.T, opts ...coderdtest.Option) *world {
	t.Helper()
	w := &world{
		World: ensuretest.New(t, knownKinds, opts...), secrets: map[string]bool{},
		cp: &coderv1alpha1.CoderControlPlane{
			ObjectMeta: metav1.ObjectMeta{Namespace: ensuretest.Namespace, Name: testName, UID: "cp-uid", Generation: 1},
		},
	}
	w.restart()
	return w
}

// restart replaces the Manager by one with empty caches, as after a restart of the process.
func (w *world) restart() {
	w.Fault.Set(0, false)
	w.manager = &Manager{
		Client: w.Client, Clock: w.Clock,
		Random: func() (string, error) {
			w.random++
			password := fmt.Sprintf("P4ssw0rdThatNobodyMaySee%04d", w.random)
			w.secrets[password] = true
			return password, nil
		},
		NewClient: func(cfg coderd.Config) (*coderd.Client, error) {
			w.secrets[cfg.Token] = true
			return w.NewClient(cfg)
		},
	}
}

func (w *world) request() Request {
	return Request{ControlPlane: w.cp, URL: w.Coder.URL, AdminJob: func(secret string) *batchv1.Job {
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
func (w *world) pass() Result { return w.run(w.manager.Ensure) }

func (w *world) revoke() Result { return w.run(w.manager.Revoke) }

func (w *world) run(do func(context.Context, Request) (Result, error)) Result {
	w.T.Helper()
	result, err := do(w.Ctx, w.request())
	w.CheckSilence(w.secrets, result.Events, result.Message, err)
	w.Must(err)
	return result
}

// settle runs passes, and Jobs between them, until one is Ready.
func (w *world) settle() Result {
	w.T.Helper()
	var result Result
	for range 12 {
		if result = w.pass(); result.State == Ready {
			return result
		}
		w.runJob()
		w.Forward(result.RequeueAfter)
	}
	w.T.Fatalf("not Ready after 12 passes: %s %s: %s", result.State, result.Reason, result.Message)
	return result
}

// addAda adds a human user, so that Coder has users.
func (w *world) addAda() {
	w.ada = w.Coder.AddUser("ada", "owner")
	w.secrets[w.ada] = true
}

// as returns a client of Coder that is not affected by faults.
func (w *world) as(token string) *coderd.Client { return w.As(w.Coder.URL, token) }

// addUser creates an account in Coder, as another user would.
func (w *world) addUser(username, email, password string, roles ...string) error {
	w.T.Helper()
	ada := w.as(w.ada)
	org, err := ada.OrganizationByName(w.Ctx, coderd.DefaultOrganization)
	w.Must(err)
	_, err = ada.CreateUser(w.Ctx, coderd.NewUser{
		Username: username, Email: email, Password: password, OrganizationIDs: []uuid.UUID{org.ID},
	})
	if err != nil {
		return err
	}
	return ada.SetRoles(w.Ctx, username, roles)
}

// runJob does the work of the Job's container, if there is a Job.
func (w *world) runJob() {
	w.T.Helper()
	job := &batchv1.Job{}
	if !w.Get(jobName, job) || jobEnd(job) != "" {
		return
	}
	creds := readAccount(w.Secret(job.Spec.Template.Spec.Containers[0].EnvFrom[0].SecretRef.Name))
	outcome := batchv1.JobComplete
	if err := w.addUser(creds.username, creds.email, creds.password, "owner"); err != nil {
		outcome = batchv1.JobFailed
	}
	w.endJob(job, outcome)
}

func (w *world) endJob(job *batchv1.Job, outcome batchv1.JobConditionType) {
	w.T.Helper()
	job.Status.Conditions = []batchv1.JobCondition{{
		Type: outcome, Status: corev1.ConditionTrue, Message: "Job has reached the specified backoff limit",
	}}
	w.Must(w.Client.Status().Update(w.Ctx, job))
}

// token returns the token in the operator's Secret.
func (w *world) token() string {
	w.T.Helper()
	return string(w.Secret("dev-operator-token").Data["token"])
}
