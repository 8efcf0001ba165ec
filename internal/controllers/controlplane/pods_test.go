package controlplane

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

// addPod creates the ReplicaSet of a revision and a pod of it.
func (f *fixture) addPod(revision string, status corev1.PodStatus) {
	f.T.Helper()
	d := &appsv1.Deployment{}
	f.Get("coder", d)
	labels := coderv1alpha1.ControlPlaneLabels(newControlPlane().Name)
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Name: "coder-rs" + revision, Namespace: "coder", UID: types.UID("rs-uid-" + revision), Labels: labels,
		Annotations:     map[string]string{"deployment.kubernetes.io/revision": revision},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
	}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "coder-rs" + revision + "-abcde", Namespace: "coder", Labels: labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
		},
		Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: resources.ControlPlaneContainer, Image: "ghcr.io/coder/coder:nope"}}},
		Status: status,
	}
	f.Create(set)
	f.Create(pod)
}

func waitingContainer(reason, message string) corev1.PodStatus {
	return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		Name: resources.ControlPlaneContainer, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
	}}}
}

func runningContainer() corev1.PodStatus {
	return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		Name: resources.ControlPlaneContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}}
}

func crashedContainer(code int32, reason, message string) corev1.PodStatus {
	status := waitingContainer("CrashLoopBackOff", "back-off 40s restarting failed container=coder pod=coder-rs1-abcde")
	status.ContainerStatuses[0].RestartCount = 3
	status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: reason, Message: message,
	}
	return status
}

func restarted(times int32, status corev1.PodStatus) corev1.PodStatus {
	status.ContainerStatuses[0].RestartCount = times
	return status
}

func TestPodTrouble(t *testing.T) {
	leak := "error: connect to postgres: escaping postgres URL: invalid postgres url with userinfo: postgres://coder:" + password + "@db\n"
	for name, c := range map[string]struct {
		status            corev1.PodStatus
		current, previous string
		noDatabase        bool
		database          *coderv1alpha1.DatabaseSpec
		reason, message   string
		stalled           bool
	}{
		"image that does not exist": {
			status: waitingContainer("ErrImagePull", `failed to pull and unpack image "ghcr.io/coder/coder:nope": not found`),
			reason: coderv1alpha1.ReasonImagePullFailed, message: "the registry has no such image",
		},
		"the same, while the kubelet waits": {
			status: waitingContainer("ImagePullBackOff", `Back-off pulling image "ghcr.io/coder/coder:nope": ErrImagePull: not found`),
			reason: coderv1alpha1.ReasonImagePullFailed, message: "the registry has no such image",
		},
		"Secret that does not exist": {
			status: waitingContainer("CreateContainerConfigError", `secret "db" not found`),
			reason: coderv1alpha1.ReasonContainerConfigInvalid, message: `secret "db" not found`,
		},
		"database refuses, coderd still tries": {
			status: runningContainer(), current: logRetrying,
			reason: coderv1alpha1.ReasonDatabaseUnreachable, message: "dial tcp 10.96.0.7:5432: connect: connection refused",
		},
		"the URL is in spec.extraEnv": {
			status: runningContainer(), current: logRetrying,
			reason: coderv1alpha1.ReasonDatabaseUnreachable, message: `; check that PostgreSQL runs, and correct host and port in the connection URL; the connection URL is key "url" of Secret "db" (CODER_PG_CONNECTION_URL in spec.extraEnv)`,
		},
		"the URL is in spec.database": {
			status: runningContainer(), current: logRetrying, database: &coderv1alpha1.DatabaseSpec{SecretRef: &coderv1alpha1.DatabaseSecretReference{Name: "db"}},
			reason: coderv1alpha1.ReasonDatabaseUnreachable, message: `; check that PostgreSQL runs, and correct host and port in the connection URL; the connection URL is key "url" of Secret "db" (spec.database)`,
		},
		"database refuses, coderd ended": {
			status: crashedContainer(1, "Error", logEnded),
			reason: coderv1alpha1.ReasonDatabaseUnreachable, message: "dial tcp 10.96.0.7:5432: connect: connection refused",
		},
		"database refuses, only the log of the last run knows": {
			status: crashedContainer(1, "Error", ""), previous: logEnded,
			reason: coderv1alpha1.ReasonDatabaseUnreachable, message: "dial tcp 10.96.0.7:5432: connect: connection refused",
		},
		"address that is no URL": {
			status: crashedContainer(1, "Error", leak),
			reason: coderv1alpha1.ReasonDatabaseUnreachable, message: "cannot parse the connection URL",
		},
		"another crash": {
			status: crashedContainer(2, "Error", "error: flag provided but not defined: --nope "+password+" postgres://coder:"+password+"@db/x\n"),
			reason: coderv1alpha1.ReasonCrashLooping, message: "code 2: flag provided but not defined: --nope [redacted]",
		},
		"the same crash for minutes": {
			status: restarted(5, crashedContainer(2, "Error", "error: flag provided but not defined: --nope\n")), stalled: true,
			reason: coderv1alpha1.ReasonCrashLooping, message: "flag provided but not defined: --nope",
		},
		"the database is away for minutes": {
			status: restarted(5, crashedContainer(1, "Error", logEnded)),
			reason: coderv1alpha1.ReasonDatabaseUnreachable, message: "connection refused",
		},
		"out of memory": {
			status: crashedContainer(137, "OOMKilled", ""),
			reason: coderv1alpha1.ReasonCrashLooping, message: "memory",
		},
		"no database": {
			status: runningContainer(), noDatabase: true, stalled: true,
			reason: coderv1alpha1.ReasonDatabaseMissing, message: "CODER_PG_CONNECTION_URL",
		},
		"no node": {
			status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes are available: 1 Insufficient cpu.",
			}}},
			reason: coderv1alpha1.ReasonUnschedulable, message: "Insufficient cpu",
		},
		"nothing is wrong yet": {
			status: runningContainer(), current: "Started HTTP listener\n",
			reason: coderv1alpha1.ReasonProgressing, message: "0 of 1 pods are ready",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cp := newControlPlane()
			if cp.Spec.Database = c.database; c.noDatabase || c.database != nil {
				cp.Spec.ExtraEnv = nil
			}
			f := newFixture(t, cp, databaseSecret())
			f.Reconcile()
			f.PodsReady(0)
			f.addPod("1", c.status)
			f.logs.current, f.logs.previous = c.current, c.previous
			result := f.Settle()

			condition := f.MustHave(coderv1alpha1.ConditionDeploymentAvailable, metav1.ConditionFalse, c.reason)
			if !strings.Contains(condition.Message, c.message) || strings.Contains(condition.Message, "abcde") {
				t.Errorf("message is %q, want %q and no generated name", condition.Message, c.message)
			}
			f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionFalse, c.reason)
			summary := coderv1alpha1.ConditionReconciling
			if c.stalled {
				summary = coderv1alpha1.ConditionStalled
			}
			f.MustHave(summary, metav1.ConditionTrue, c.reason)
			if want := c.reason != coderv1alpha1.ReasonProgressing; (f.Events.Count("Warning "+c.reason) == 1) != want {
				t.Errorf("Events: %q", f.Events.All())
			}
			if result.RequeueAfter != framework.PollInterval {
				t.Errorf("looks again after %v, want %v", result.RequeueAfter, framework.PollInterval)
			}
			f.mustNotLeak()
		})
	}
}

func TestOnlyTheNewestRevisionCounts(t *testing.T) {
	f := newFixture(t, newControlPlane(), databaseSecret())
	f.Reconcile()
	f.PodsReady(0)
	f.addPod("9", crashedContainer(1, "Error", logEnded))
	f.addPod("10", waitingContainer("ErrImagePull", "not found"))
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionDeploymentAvailable, metav1.ConditionFalse, coderv1alpha1.ReasonImagePullFailed)
}

func TestARolloutThatKubernetesGaveUpStalls(t *testing.T) {
	f := newFixture(t, newControlPlane(), databaseSecret())
	f.Reconcile()
	f.PodsReady(0)
	d := &appsv1.Deployment{}
	f.Get("coder", d)
	d.Status.Conditions = []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"},
		{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: `pods "coder-rs1-abcde" is forbidden: exceeded quota: q`},
	}
	f.UpdateStatus(d)
	f.Settle()
	condition := f.MustHave(coderv1alpha1.ConditionStalled, metav1.ConditionTrue, coderv1alpha1.ReasonPodsRefused)
	if want := "the API server rejects the pods: exceeded quota: q; raise the ResourceQuota of the namespace, remove other pods, or set or lower the requests and limits in the spec"; condition.Message != want {
		t.Errorf("message is %q, want %q", condition.Message, want)
	}
}

// Reading pods and logs costs requests, so they are read only if pods are not ready.
func TestPodsAreNotReadWhileTheyAreReady(t *testing.T) {
	f := readyFixture(t)
	f.addPod("1", runningContainer())
	f.logs.requests = nil
	f.Reconcile()
	if len(f.logs.requests) > 0 {
		t.Errorf("logs were read: %+v", f.logs.requests)
	}
}
