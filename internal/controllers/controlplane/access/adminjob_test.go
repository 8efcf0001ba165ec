package access

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure/ensuretest"
	"github.com/coder-k8s/coder-k8s/internal/podproblem"
)

func TestUsersExist(t *testing.T) {
	f := newFixture(t)
	f.addAda()
	got := f.pass()
	f.WantState(got.Result, ensure.Waiting, coderv1alpha1.ReasonAdminJobRunning)
	if ensuretest.Reasons(got.Events) != "AdminJobRunning" {
		t.Errorf("events %v", got.Events)
	}
	creds := readAccount(f.Secret("dev-operator-credentials"))
	if !strings.HasPrefix(creds.username, coderv1alpha1.OperatorUsername+"-") || len(creds.username) > 32 || creds.email != creds.username+"@coder-k8s.invalid" {
		t.Errorf("account %q %q", creds.username, creds.email)
	}
	job := &batchv1.Job{}
	if !f.Has(jobName, job) || !metav1.IsControlledBy(job, f.cp) {
		t.Fatalf("Job owners %v", job.OwnerReferences)
	}

	f.TakeWrites()
	got = f.pass()
	f.WantState(got.Result, ensure.Waiting, coderv1alpha1.ReasonAdminJobRunning)
	if f.Writes() != 0 || len(got.Events) != 0 {
		t.Errorf("waiting makes %d writes, events %v", f.Writes(), got.Events)
	}

	f.runJob()
	got = f.pass()
	f.WantState(got.Result, ensure.Ready, coderv1alpha1.ReasonTokenAccepted)
	f.checkWhole()
	if f.Has(jobName, job) || f.HasSecret("dev-initial-admin") {
		t.Error("the Job or an initial admin is there")
	}
}

// podOf returns the pod of a finished Job with this termination message.
func podOf(said string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ensuretest.Namespace, Name: "p", Labels: map[string]string{batchv1.JobNameLabel: jobName}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: said}},
		}}},
	}
}

func TestAdminJobFails(t *testing.T) {
	for name, c := range map[string]struct {
		said, says, saysNot string
	}{
		"and leaves no words": {says: "Job has reached the specified backoff limit (see `kubectl logs -n team job/dev-create-admin`)"},
		"without a database":  {said: "Encountered an error running \"coder server\"\nconnect to postgres: ping postgres: dial tcp: connection refused\n", says: `cannot reach the database; the connection URL is key "url" of Secret "db"`},
		"with a strange word": {said: "first\nsegmentation fault\n", says: `it reported "segmentation fault"`},
		"and tells an address": {
			said: "parse \"postgres://coder:hunter2@db/coder\": net/url: invalid", says: "backoff limit", saysNot: "hunter2",
		},
		"because the account exists": {
			said: `insert user: pq: duplicate key value violates unique constraint "idx_users_email"`, says: "exists already",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.addAda()
			f.pass()
			if c.said != "" {
				f.Create(podOf(c.said))
			}
			job := &batchv1.Job{}
			f.Has(jobName, job)
			f.endJob(job, batchv1.JobFailed)
			got := f.pass()
			f.WantState(got.Result, ensure.Failed, coderv1alpha1.ReasonAdminJobFailed)
			if !strings.Contains(got.Message, c.says) || (c.saysNot != "" && strings.Contains(got.Message, c.saysNot)) {
				t.Errorf("message %q, want %q and not %q", got.Message, c.says, c.saysNot)
			}
			if ensuretest.Reasons(got.Events) != "AdminJobFailed" || got.Events[0].Type != corev1.EventTypeWarning {
				t.Errorf("events %v", got.Events)
			}
		})
	}
}

func TestAdminJobIsTriedAgainWithBackoff(t *testing.T) {
	f := newFixture(t)
	f.addAda()
	for _, want := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute} {
		got := f.pass()
		for got.Reason == coderv1alpha1.ReasonAdminJobRunning && !f.Has(jobName, &batchv1.Job{}) {
			got = f.pass()
		}
		job := &batchv1.Job{}
		f.Has(jobName, job)
		f.endJob(job, batchv1.JobFailed)
		got = f.pass()
		f.WantState(got.Result, ensure.Failed, coderv1alpha1.ReasonAdminJobFailed)
		if got.RequeueAfter != want {
			t.Errorf("requeue after %v, want %v", got.RequeueAfter, want)
		}
		f.Coder.Asked()
		f.TakeWrites()
		again := f.pass()
		if again.Message != got.Message || len(again.Events) != 0 || f.Writes() != 0 || f.Coder.Asked() > 1 {
			t.Errorf("in between: message %q, events %v, %d writes", again.Message, again.Events, f.Writes())
		}
		f.Forward(want)
	}
	// A change of the spec may have fixed the cause, so the Job is retried without a delay.
	f.pass()
	f.pass()
	job := &batchv1.Job{}
	f.Has(jobName, job)
	f.endJob(job, batchv1.JobFailed)
	f.pass()
	f.cp.Generation++
	f.pass()
	f.pass()
	if !f.Has(jobName, job) || podproblem.JobEnd(job) != "" {
		t.Error("the Job was not started again after a change of the spec")
	}
	f.settle()
	f.checkWhole()
}

func TestAdminJobInAnotherDatabase(t *testing.T) {
	f := newFixture(t)
	f.addAda()
	f.pass()
	job := &batchv1.Job{}
	f.Has(jobName, job)
	f.endJob(job, batchv1.JobComplete)
	got := f.pass()
	f.WantState(got.Result, ensure.Failed, coderv1alpha1.ReasonAdminJobFailed)
	if !strings.HasSuffix(got.Message, `the connection URL is key "url" of Secret "db"`) {
		t.Errorf("message %q", got.Message)
	}
}

func TestJobOfSomebodyElse(t *testing.T) {
	f := newFixture(t)
	f.addAda()
	f.Create(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: ensuretest.Namespace, Name: jobName}})
	f.WantState(f.pass().Result, ensure.Failed, coderv1alpha1.ReasonNotOwned)
	if !f.Has(jobName, &batchv1.Job{}) {
		t.Error("the Job was deleted")
	}
}

// A control plane that is created again on the database of an earlier one gets access, although the
// account of the earlier one still exists. That account is suspended, and no other.
func TestSecondControlPlaneOnTheSameDatabase(t *testing.T) {
	t.Run("right clock", func(t *testing.T) { testSecondControlPlane(t, 0) })
	t.Run("Coder is two hours behind", func(t *testing.T) { testSecondControlPlane(t, 2*time.Hour) })
}

func testSecondControlPlane(t *testing.T, behind time.Duration) {
	coders := clocktesting.NewFakePassiveClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	f := newFixture(t, coderdtest.WithClock(coders))
	f.settle()
	f.addAda()
	const used, person = coderv1alpha1.OperatorUsername + "-0a0a0a0a", "coder-k8s-operator-fan"
	f.Must(f.addUser(used, used+"@"+EmailDomain, "P4ssw0rdOfAnotherOperator", "owner"))
	f.Must(f.addUser(person, "fan@example.com", "P4ssw0rdOfAPerson", "owner"))
	_, err := f.as(f.ada).CreateToken(f.Ctx, used, coderd.TokenRequest{Name: "t", Lifetime: time.Hour})
	f.Must(err)
	f.revoke()
	f.cp.UID = "second"
	f.Remove(f.Secret("dev-initial-admin"))
	f.Clock.SetTime(f.Clock.Now().Add(behind))
	f.restart()
	got := f.settle()
	f.checkWhole()
	if !strings.Contains(ensuretest.Reasons(got.Events), coderv1alpha1.ReasonAccountSuspended) {
		t.Errorf("events %q", ensuretest.Reasons(got.Events))
	}
	mine := readAccount(f.Secret("dev-operator-credentials")).username
	for _, name := range f.Coder.Usernames() {
		if user, _ := f.Coder.User(name); user.Suspended != (name == coderv1alpha1.OperatorUsername) || f.Coder.HasRole(name, "owner") == user.Suspended {
			t.Errorf("user %q (mine is %q): %+v", name, mine, user)
		}
	}
}

// The operator was interrupted before it created the first user, and someone else created it before
// the next attempt.
func TestSomebodyElseBecomesTheFirstUser(t *testing.T) {
	for name, prepare := range map[string]func(f *fixture){
		"between two passes": func(f *fixture) {
			remove := f.Coder.Fail(coderdtest.Fault{Method: "POST", PathPrefix: "/api/v2/users/first", Status: 503})
			f.WantState(f.pass().Result, ensure.Waiting, coderv1alpha1.ReasonUnreachable)
			remove()
			f.addAda()
		},
		"within a pass": func(f *fixture) {
			f.addAda()
			f.Coder.Fail(coderdtest.Fault{Method: "GET", PathPrefix: "/api/v2/users/first", Status: 404, Times: 1})
			f.WantState(f.pass().Result, ensure.Waiting, coderv1alpha1.ReasonWaiting)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			prepare(f)
			f.settle()
			f.checkWhole()
			if f.HasSecret("dev-initial-admin") {
				t.Error("made an initial admin where people had accounts")
			}
		})
	}
}

// The database was replaced by an empty one: the operator starts again and keeps the passwords that
// users already have.
func TestDatabaseIsReplacedByAnEmptyOne(t *testing.T) {
	f := newFixture(t)
	f.settle()
	before := readAccount(f.Secret("dev-initial-admin")).password
	f.Coder = coderdtest.New(t, coderdtest.WithClock(f.Clock))
	f.settle()
	f.checkWhole()
	f.checkAdmin()
	if after := readAccount(f.Secret("dev-initial-admin")).password; after != before {
		t.Error("the password of the initial admin changed")
	}
}

// The credentials were deleted while a Job with these credentials existed.
func TestJobOfOtherCredentialsIsStartedAgain(t *testing.T) {
	f := newFixture(t)
	f.addAda()
	f.pass()
	first := &batchv1.Job{}
	f.Has(jobName, first)
	f.endJob(first, batchv1.JobFailed)
	f.Remove(f.Secret("dev-operator-credentials"))
	got := f.pass()
	f.WantState(got.Result, ensure.Waiting, coderv1alpha1.ReasonAdminJobRunning)
	f.settle()
	f.checkWhole()
	if now := (&batchv1.Job{}); f.Has(jobName, now) {
		t.Error("the Job is left")
	}
}
