package controlplane

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controllertest"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

const (
	// outageTick is the time between two looks at the world, in which a pod starts, migrates or stops.
	outageTick = 20 * time.Second
	// outageRetries is the time after which a Job or a backup that cannot reach the database has failed.
	outageRetries = 80 * time.Second

	outageCause = `the database cannot be reached: psql: error: connection to server at "db", port 5432 failed: Connection refused`
)

// outageWorld is a cluster in which the database goes away during an upgrade to 2.36.
type outageWorld struct {
	*fixture
	// from and until are the times of the outage. from is zero before it.
	from, until time.Time
	// schema is the version of the schema, which the new image changes if it migrates. broken is a new image that then crashes.
	schema           string
	migrates, broken bool
	// pods counts the pods of Coder, and began is the time when an object was first seen.
	pods  int
	began map[string]time.Time
	// crashed reports whether the process has ended.
	crashed bool
}

func newOutageWorld(t *testing.T, migrates, broken bool) *outageWorld {
	t.Helper()
	o := &outageWorld{fixture: readyFixture(t), schema: "412", migrates: migrates, broken: broken, began: map[string]time.Time{}}
	o.startPod(image230)
	return o
}

func (o *outageWorld) away() bool { return !o.from.IsZero() && o.Clock.Now().Before(o.until) }

// age returns how long an object has existed.
func (o *outageWorld) age(name string) time.Duration {
	if _, seen := o.began[name]; !seen {
		o.began[name] = o.Clock.Now()
	}
	return o.Clock.Now().Sub(o.began[name])
}

// coders returns the pods of Coder.
func (o *outageWorld) coders() []corev1.Pod {
	o.T.Helper()
	pods := &corev1.PodList{}
	o.List(pods)
	var found []corev1.Pod
	for _, pod := range pods.Items {
		if strings.HasPrefix(pod.Name, "coder-rs") {
			found = append(found, pod)
		}
	}
	return found
}

func (o *outageWorld) startPod(image string) {
	o.T.Helper()
	o.pods++
	o.addPod(fmt.Sprint(o.pods), runningContainer())
	o.podImage(fmt.Sprint(o.pods), image)
}

// work does the work of Kubernetes, of Coder and of the other controllers for one tick.
func (o *outageWorld) work() {
	o.T.Helper()
	o.endJobs("-image-", "")
	o.workOnSchemaJobs()
	o.workOnBackup()
	o.workOnPods()
	if pod := (&corev1.Pod{}); o.Has("mine", pod) && o.upgrade() != nil && o.upgrade().Phase == coderv1alpha1.UpgradeStoppingProvisioners && o.age("mine") > time.Minute {
		o.Remove(pod)
	}
}

func (o *outageWorld) workOnSchemaJobs() {
	o.T.Helper()
	for _, job := range o.jobs("-schema-") {
		failed := &corev1.Pod{}
		switch age := o.age(job.Name); {
		case len(job.Status.Conditions) > 0 || age == 0:
		case !o.away():
			controllertest.EndJob(o.Fixture.Fixture, &job, batchv1.JobComplete, "", "schemaVersion="+o.schema+"\nserverVersion=150004\n")
		case age >= outageRetries:
			controllertest.EndJob(o.Fixture.Fixture, &job, batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded, "")
		case !o.Has(job.Name+"-first", failed): // Its first pod fails, and the Job tries again.
			failed = controllertest.PodOf(&job)
			failed.Name = job.Name + "-first"
			failed.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: job.Spec.Template.Spec.Containers[0].Name, State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "reason=DatabaseUnreachable\nmessage=" + outageCause + "\n"},
			}}}
			o.Create(failed)
		}
	}
}

func (o *outageWorld) workOnBackup() {
	o.T.Helper()
	backups := &coderv1alpha1.CoderBackupList{}
	o.List(backups)
	for i := range backups.Items {
		backup := &backups.Items[i]
		phase, reason, age := coderv1alpha1.BackupCompleted, coderv1alpha1.ReasonBackupCompleted, o.age(backup.Name)
		if o.away() {
			phase, reason = coderv1alpha1.BackupFailed, coderv1alpha1.ReasonDatabaseUnreachable
		}
		if backup.Status.Phase != "" || age == 0 || o.away() && age < outageRetries {
			continue
		}
		backup.Status.Phase, backup.Status.SchemaVersion = phase, 412
		backup.Status.Conditions = []metav1.Condition{{
			Type: coderv1alpha1.ConditionComplete, Status: metav1.ConditionFalse, Reason: reason, Message: outageCause, LastTransitionTime: metav1.NewTime(o.Clock.Now()),
		}}
		o.UpdateStatus(backup)
	}
}

// workOnPods runs the pod of the Deployment. Coder crashes if it starts while the database is away. It goes on if it serves already.
func (o *outageWorld) workOnPods() {
	o.T.Helper()
	d := o.Deployment()
	image, wanted, ready := d.Spec.Template.Spec.Containers[0].Image, *d.Spec.Replicas, int32(0)
	o.coder.SetRelease(map[string]coderdtest.Release{image230: coderdtest.Release230, image236: coderdtest.Release236}[image])
	there := false
	for _, pod := range o.coders() {
		if wanted == 0 || pod.Spec.Containers[0].Image != image {
			if o.age(pod.Name+" stops") > 0 {
				o.Remove(&pod)
			}
			continue
		}
		there = true
		o.runCoder(&pod)
		if pod.Status.ContainerStatuses[0].Ready {
			ready = 1
		}
	}
	if wanted > 0 && !there && (len(o.coders()) == 0 || d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType) {
		o.startPod(image)
	}
	o.PodsReady(ready)
}

func (o *outageWorld) runCoder(pod *corev1.Pod) {
	o.T.Helper()
	isNew := pod.Spec.Containers[0].Image == image236
	switch {
	case o.age(pod.Name) == 0, pod.Status.ContainerStatuses[0].Ready:
		return
	case o.away():
		pod.Status = crashedContainer(1, "Error", logEnded)
	case isNew && o.migrates && o.schema == "412":
		o.schema = "556" // It is ready later.
		return
	case isNew && o.broken:
		pod.Status = crashedContainer(1, "Error", "panic: no")
	default:
		pod.Status = runningContainer()
		pod.Status.ContainerStatuses[0].Ready = true
	}
	o.UpdateStatus(pod)
}

// mustBeSafe checks what must be true at any time.
func (o *outageWorld) mustBeSafe() {
	o.T.Helper()
	images := map[string]bool{}
	for _, pod := range o.coders() {
		images[pod.Spec.Containers[0].Image] = true
	}
	if len(images) > 1 {
		o.T.Errorf("pods of two images: %v", images)
	}
	d := o.Deployment()
	if old := d.Spec.Template.Spec.Containers[0].Image == image230; o.schema != "412" && (images[image230] || old && *d.Spec.Replicas > 0) {
		o.T.Errorf("the old image has a database of schema %s", o.schema)
	}
}

// namesTheDatabase reports whether a condition that is not true says that the database cannot be reached.
func (o *outageWorld) namesTheDatabase() bool {
	o.T.Helper()
	for _, c := range o.Object().Status.Conditions {
		if c.Status != metav1.ConditionTrue && (strings.Contains(c.Message, outageCause) || strings.Contains(c.Message, "Coder cannot use its database")) {
			return true
		}
	}
	return false
}

// upgradeWithOutage upgrades, and the database goes away in a phase, or when the schema was changed in it. It returns the phases,
// until the upgrade has ended after the outage. One that has failed has two more minutes.
func (o *outageWorld) upgradeWithOutage(phase coderv1alpha1.UpgradePhase, afterMigration bool, length time.Duration) (phases []coderv1alpha1.UpgradePhase) {
	o.T.Helper()
	o.wants(image236)
	silent, ended := time.Duration(0), time.Duration(0)
	for range int(2 * time.Hour / outageTick) {
		if _, err := o.Try(); err != nil && !o.Fault.Dead() {
			o.T.Fatal(err)
		}
		if o.Fault.Dead() {
			o.crashed = true
			o.Fault.Set(0, false)
			o.restart()
		}
		o.Fault.Without(func() {
			u := o.upgrade()
			if u != nil && (len(phases) == 0 || phases[len(phases)-1] != u.Phase) {
				phases = append(phases, u.Phase)
			}
			if u != nil && o.from.IsZero() && u.Phase == phase && (!afterMigration || o.schema != "412") {
				o.from, o.until = o.Clock.Now(), o.Clock.Now().Add(length)
			}
			o.work()
			o.mustBeSafe()
			// Every phase but the wait for provisioners and for pods that stop notices the outage.
			if silent += outageTick; !o.away() || o.namesTheDatabase() || u.Phase == coderv1alpha1.UpgradeStoppingProvisioners || u.Phase == coderv1alpha1.UpgradeBackingUp {
				silent = 0
			}
			if silent > 3*time.Minute {
				o.T.Errorf("in the phase %s no condition names the database: %+v", u.Phase, o.Object().Status.Conditions)
				silent = 0
			}
			if ended += outageTick; runs(u) || u == nil || o.from.IsZero() || o.away() {
				ended = 0
			}
		})
		if u := o.upgrade(); ended > 0 && u.Phase != coderv1alpha1.UpgradeFailed || ended > 2*time.Minute {
			return phases
		}
		o.Forward(outageTick)
	}
	o.T.Fatalf("the upgrade does not end: %v, %+v", phases, o.upgrade())
	return nil
}

// outage is a case of TestTheDatabaseIsAwayDuringAnUpgrade.
type outage struct {
	phase coderv1alpha1.UpgradePhase
	// scheduled means that there is a CoderBackupSchedule. migrates and broken are the new image. With afterMigration the outage begins
	// in the phase when the schema has changed.
	scheduled, migrates, broken, afterMigration bool
	// ends are the results of an outage of one, five and fifteen minutes. A Failed upgrade may be Completed later.
	ends [3]coderv1alpha1.UpgradePhase
}

func outages() map[string]outage {
	const completed, reverted, failed = coderv1alpha1.UpgradeCompleted, coderv1alpha1.UpgradeReverted, coderv1alpha1.UpgradeFailed
	ends := func(one, five, fifteen coderv1alpha1.UpgradePhase) [3]coderv1alpha1.UpgradePhase {
		return [3]coderv1alpha1.UpgradePhase{one, five, fifteen}
	}
	return map[string]outage{
		"Checking":                  {phase: coderv1alpha1.UpgradeChecking, migrates: true, ends: ends(completed, completed, completed)},
		"Checking, with a schedule": {phase: coderv1alpha1.UpgradeChecking, migrates: true, scheduled: true, ends: ends(completed, completed, reverted)},
		"StoppingProvisioners":      {phase: coderv1alpha1.UpgradeStoppingProvisioners, migrates: true, scheduled: true, ends: ends(completed, reverted, reverted)},
		"Stopping":                  {phase: coderv1alpha1.UpgradeStopping, migrates: true, scheduled: true, ends: ends(completed, reverted, reverted)},
		"BackingUp":                 {phase: coderv1alpha1.UpgradeBackingUp, migrates: true, scheduled: true, ends: ends(completed, reverted, reverted)},
		"Migrating":                 {phase: coderv1alpha1.UpgradeMigrating, migrates: true, scheduled: true, ends: ends(completed, reverted, completed)},
		"Migrating, when migrated":  {phase: coderv1alpha1.UpgradeMigrating, migrates: true, scheduled: true, afterMigration: true, ends: ends(completed, completed, completed)},
		"Verifying":                 {phase: coderv1alpha1.UpgradeVerifying, broken: true, scheduled: true, ends: ends(reverted, reverted, failed)},
		"Verifying, when migrated":  {phase: coderv1alpha1.UpgradeVerifying, broken: true, scheduled: true, migrates: true, ends: ends(failed, failed, failed)},
		"Reverting":                 {phase: coderv1alpha1.UpgradeReverting, broken: true, scheduled: true, ends: ends(reverted, reverted, reverted)},
	}
}

func (c *outage) begin(t *testing.T) *outageWorld {
	t.Helper()
	o := newOutageWorld(t, c.migrates, c.broken)
	if c.scheduled {
		o.Create(schedule())
	}
	if c.phase == coderv1alpha1.UpgradeStoppingProvisioners {
		o.provisioners()
	}
	return o
}

// TestTheDatabaseIsAwayDuringAnUpgrade lets the database go away in each phase. The old image never gets a changed schema, no two
// images run at the same time, the upgrade ends, and a condition names the database.
func TestTheDatabaseIsAwayDuringAnUpgrade(t *testing.T) {
	kubetest.SkipWithRace(t)
	t.Parallel()
	for name, c := range outages() {
		for i, length := range []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute} {
			t.Run(fmt.Sprint(name, "/", length), func(t *testing.T) {
				t.Parallel()
				o := c.begin(t)
				phases := o.upgradeWithOutage(c.phase, c.afterMigration, length)
				u := o.upgrade()
				if u.Phase != c.ends[i] {
					t.Errorf("it ends in %s, want %s: %+v", u.Phase, c.ends[i], u)
				}
				if strings.Contains(u.Message, "could not be read") && length < schemaLimit {
					t.Errorf("the schema was not read again: %q", u.Message)
				}
				said := meta.FindStatusCondition(o.Object().Status.Conditions, coderv1alpha1.ConditionUpgraded).Message
				// Another cause is in the message if the image is broken.
				if !c.broken && u.Phase != coderv1alpha1.UpgradeCompleted && !strings.Contains(said, "database") {
					t.Errorf("after %v the message does not name the database: %q", phases, said)
				}
			})
		}
	}
}

// TestCrashesWhileTheDatabaseIsAway ends the process at each write of an upgrade whose schema is read several times.
func TestCrashesWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	c := outages()["Verifying"]
	kubetest.EachStep(t, 10, func(at int) bool {
		o := c.begin(t)
		o.Fault.Set(at, true)
		o.upgradeWithOutage(c.phase, false, 3*time.Minute)
		if u := o.upgrade(); u.Phase != coderv1alpha1.UpgradeReverted || len(o.jobs("-schema-")) > 4 {
			t.Fatalf("crash at write %d: %+v, with %d Jobs", at, u, len(o.jobs("-schema-")))
		}
		return o.crashed
	})
}

// TestTheConditionSaysThatTheDatabaseIsAway checks the message between two attempts and when the limit has passed.
func TestTheConditionSaysThatTheDatabaseIsAway(t *testing.T) {
	f := readyFixture(t)
	f.World = func() bool { return f.PodsReady(*f.Deployment().Spec.Replicas) }
	f.wants(image236)
	f.Settle()
	f.endJobs("-image-", "")
	since := f.mustBeIn(coderv1alpha1.UpgradeChecking).PhaseStartedAt.UTC().Format(time.RFC3339)
	for attempt := range 3 {
		jobs := f.jobs("-schema-")
		if len(jobs) != attempt+1 {
			t.Fatalf("in attempt %d there are %d Jobs", attempt, len(jobs))
		}
		for _, job := range jobs {
			if len(job.Status.Conditions) == 0 {
				controllertest.EndJob(f.Fixture.Fixture, &job, batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded, "reason=DatabaseUnreachable\nmessage="+outageCause+"\n")
			}
		}
		f.Forward(upgradePatience + time.Second)
		f.restart()
		f.Settle() // The next Job has not begun.
		f.mustBeIn(coderv1alpha1.UpgradeChecking)
		f.mustSay(metav1.ConditionFalse, coderv1alpha1.ReasonUpgradeChecking, outageCause, "the operator has been trying since "+since+", and gives up after 10m0s")
		f.mustHavePods(image230, 1)
	}
	// A pod that does not start at once is no reason to give up earlier.
	pod := controllertest.PodOf(&f.jobs("-schema-")[3])
	pod.Status = unschedulable()
	f.Create(pod)
	f.Settle()
	f.mustBeIn(coderv1alpha1.UpgradeChecking)
	f.Forward(schemaLimit)
	f.Settle()
	if u := f.mustBeIn(coderv1alpha1.UpgradeMigrating); !strings.Contains(u.Message, "the schema could not be read ("+outageCause+")") {
		t.Errorf("the message is %q", u.Message)
	}
	if c := meta.FindStatusCondition(f.Object().Status.Conditions, coderv1alpha1.ConditionUpgraded); strings.Contains(c.Message, "has been trying") {
		t.Errorf("in the next phase the message is %q", c.Message)
	}
}

// TestTheConditionWhenTheDatabaseIsBack checks that the condition does not name the database any more while the image is still tried.
func TestTheConditionWhenTheDatabaseIsBack(t *testing.T) {
	for result, how := range map[string]batchv1.JobConditionType{
		"schemaVersion=412\nserverVersion=150004\n":               batchv1.JobComplete,
		"reason=DatabaseUnsuitable\nmessage=no schema of Coder\n": batchv1.JobFailed,
	} {
		f := readyFixture(t)
		f.wants(image236)
		f.Settle()
		ends := func(attempt int, how batchv1.JobConditionType, result string) {
			reason := ""
			if how == batchv1.JobFailed {
				reason = batchv1.JobReasonBackoffLimitExceeded
			}
			jobs := f.jobs("-schema-")
			if len(jobs) != attempt {
				t.Fatalf("in attempt %d there are %d Jobs", attempt, len(jobs))
			}
			controllertest.EndJob(f.Fixture.Fixture, &jobs[attempt-1], how, reason, result)
			f.Settle()
			f.mustBeIn(coderv1alpha1.UpgradeChecking)
		}
		ends(1, batchv1.JobFailed, "reason=DatabaseUnreachable\nmessage="+outageCause+"\n")
		f.mustSay(metav1.ConditionFalse, coderv1alpha1.ReasonUpgradeChecking, outageCause)
		ends(2, how, result)
		if c := meta.FindStatusCondition(f.Object().Status.Conditions, coderv1alpha1.ConditionUpgraded); strings.Contains(c.Message, outageCause) {
			t.Errorf("after %q the message is %q", result, c.Message)
		}
	}
}
