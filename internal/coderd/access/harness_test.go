package access

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/kube/apply/applytest"
	"github.com/coder-k8s/coder-k8s/internal/kube/crashtest"
)

const (
	testNamespace = "team"
	testName      = "dev"
	jobName       = "dev-create-admin"
)

// world is the fixture: a cluster, a Coder and a Manager.
type world struct {
	t       *testing.T
	ctx     context.Context
	coder   *coderdtest.Server
	client  client.Client
	clock   *clocktesting.FakePassiveClock
	manager *Manager
	cp      *coderv1alpha1.CoderControlPlane
	fault   *crashtest.Fault
	writes  int
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
		t: t, ctx: t.Context(), fault: &crashtest.Fault{}, secrets: map[string]bool{},
		clock: clocktesting.NewFakePassiveClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)),
		cp: &coderv1alpha1.CoderControlPlane{
			ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: testName, UID: "cp-uid", Generation: 1},
		},
	}
	w.coder = coderdtest.New(t, append(opts, coderdtest.WithClock(w.clock))...)
	w.client = knownKinds.Cluster(t).WithInterceptorFuncs(w.fault.Cluster(&w.writes)).Build()
	w.restart()
	return w
}

// restart replaces the Manager by one with empty caches, as after a restart of the process.
func (w *world) restart() {
	w.fault.Set(0, false)
	w.manager = &Manager{
		Client: w.client, Clock: w.clock,
		Random: func() (string, error) {
			w.random++
			password := fmt.Sprintf("P4ssw0rdThatNobodyMaySee%04d", w.random)
			w.secrets[password] = true
			return password, nil
		},
		NewClient: func(cfg coderd.Config) (*coderd.Client, error) {
			if cfg.Token != "" {
				w.secrets[cfg.Token] = true
			}
			cfg.Transport = w.fault
			return coderd.New(cfg)
		},
	}
}

func (w *world) request() Request {
	return Request{ControlPlane: w.cp, URL: w.coder.URL, AdminJob: func(secret string) *batchv1.Job {
		return &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: jobName, Namespace: testNamespace},
			Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "coder", EnvFrom: []corev1.EnvFromSource{{
					SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: secret}},
				}}}},
			}}},
		}
	}}
}

// pass runs Ensure once, and checks that its texts contain no secret.
func (w *world) pass() Result {
	w.t.Helper()
	result, err := w.manager.Ensure(w.ctx, w.request())
	w.checkSilence(result, err)
	if err != nil {
		w.t.Fatalf("Ensure: %v", err)
	}
	return result
}

func (w *world) revoke() Result {
	w.t.Helper()
	result, err := w.manager.Revoke(w.ctx, w.request())
	w.checkSilence(result, err)
	if err != nil {
		w.t.Fatalf("Revoke: %v", err)
	}
	return result
}

func (w *world) checkSilence(result Result, err error) {
	w.t.Helper()
	said := fmt.Sprintf("%s %v", result.Message, err)
	for _, e := range result.Events {
		said += " " + e.Message
	}
	for secret := range w.secrets {
		if strings.Contains(said, secret) {
			w.t.Errorf("a secret is told: %s", said)
		}
	}
}

// settle runs passes, and Jobs between them, until one is Ready.
func (w *world) settle() Result {
	w.t.Helper()
	var result Result
	for range 12 {
		if result = w.pass(); result.State == Ready {
			return result
		}
		w.runJob()
		w.clock.SetTime(w.clock.Now().Add(result.RequeueAfter))
	}
	w.t.Fatalf("not Ready after 12 passes: %s %s: %s", result.State, result.Reason, result.Message)
	return result
}

// addAda adds a human user, so that Coder has users.
func (w *world) addAda() {
	w.ada = w.coder.AddUser("ada", "owner")
	w.secrets[w.ada] = true
}

// as returns a client of Coder that is not affected by faults.
func (w *world) as(token string) *coderd.Client {
	w.t.Helper()
	c, err := coderd.New(coderd.Config{URL: w.coder.URL, Token: token})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// addUser creates an account in Coder, as another user would.
func (w *world) addUser(username, email, password string, roles ...string) error {
	w.t.Helper()
	ada := w.as(w.ada)
	org, err := ada.OrganizationByName(w.ctx, coderd.DefaultOrganization)
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = ada.CreateUser(w.ctx, coderd.NewUser{
		Username: username, Email: email, Password: password, OrganizationIDs: []uuid.UUID{org.ID},
	})
	if err != nil {
		return err
	}
	return ada.SetRoles(w.ctx, username, roles)
}

// runJob does the work of the Job's container, if there is a Job.
func (w *world) runJob() {
	w.t.Helper()
	job := &batchv1.Job{}
	if !w.get(jobName, job) || jobEnd(job) != "" {
		return
	}
	creds := readAccount(w.secret(job.Spec.Template.Spec.Containers[0].EnvFrom[0].SecretRef.Name))
	outcome := batchv1.JobComplete
	if err := w.addUser(creds.username, creds.email, creds.password, "owner"); err != nil {
		outcome = batchv1.JobFailed
	}
	w.endJob(job, outcome)
}

func (w *world) endJob(job *batchv1.Job, outcome batchv1.JobConditionType) {
	w.t.Helper()
	job.Status.Conditions = []batchv1.JobCondition{{
		Type: outcome, Status: corev1.ConditionTrue, Message: "Job has reached the specified backoff limit",
	}}
	if err := w.client.Status().Update(w.ctx, job); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) get(name string, obj client.Object) bool {
	w.t.Helper()
	err := w.client.Get(w.ctx, client.ObjectKey{Namespace: testNamespace, Name: name}, obj)
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	return err == nil
}

// secret reads a Secret that must exist.
func (w *world) secret(name string) *corev1.Secret {
	w.t.Helper()
	secret := &corev1.Secret{}
	if !w.get(name, secret) {
		w.t.Fatalf("Secret %q does not exist", name)
	}
	return secret
}

func (w *world) remove(obj client.Object) {
	w.t.Helper()
	if err := w.client.Delete(w.ctx, obj); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) put(obj client.Object) {
	w.t.Helper()
	if err := w.client.Create(w.ctx, obj); err != nil {
		w.t.Fatal(err)
	}
}

// token returns the token in the operator's Secret.
func (w *world) token() string {
	w.t.Helper()
	return string(w.secret("dev-operator-token").Data["token"])
}

// asked returns the number of requests since the last call.
func (w *world) asked() int {
	n := 0
	for _, count := range w.coder.Requests() {
		n += count
	}
	w.coder.ResetRequests()
	return n
}

func (w *world) forward(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

func wantState(t *testing.T, got Result, state State, reason string) {
	t.Helper()
	if got.State != state || got.Reason != reason {
		t.Fatalf("got %s %s (%s), want %s %s", got.State, got.Reason, got.Message, state, reason)
	}
}

func reasons(r Result) string {
	var out []string
	for _, e := range r.Events {
		out = append(out, e.Reason)
	}
	return strings.Join(out, ",")
}
