package framework

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/podproblem"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// addPod creates the ReplicaSet of the Deployment and a pod of it.
func (f *fixture) addPod(status corev1.PodStatus) {
	f.T.Helper()
	d := f.Deployment()
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Name: "coder-rs1", Namespace: "coder", UID: "rs-uid", Labels: d.Spec.Selector.MatchLabels,
		Annotations:     map[string]string{podproblem.RevisionAnnotation: "1"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
	}}
	f.Create(set)
	f.Create(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "coder-rs1-abcde", Namespace: "coder", Labels: d.Spec.Selector.MatchLabels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
		},
		Spec: corev1.PodSpec{
			NodeName:       "node-2",
			InitContainers: []corev1.Container{{Name: "prepare", Image: "registry.example.com/prepare:1"}},
			Containers:     []corev1.Container{{Name: "coder", Image: "ghcr.io/coder/coder:v2.30.0"}, {Name: "proxy", Image: "proxy"}},
		},
		Status: status,
	})
}

func waiting(name, reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
}

func crashed(name string, code int32, reason string) corev1.ContainerStatus {
	status := waiting(name, "CrashLoopBackOff", "back-off 40s restarting failed container in pod coder-rs1-abcde")
	status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason}
	return status
}

func ended(name string, code int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, Ready: code == 0, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Completed"},
	}}
}

func running(name string, ready bool) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, Ready: ready, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
}

func TestTroubleOfEveryContainerIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		status          corev1.PodStatus
		previous        map[string]string
		reason, message string
	}{
		"an init container crashes": {
			status: corev1.PodStatus{
				InitContainerStatuses: []corev1.ContainerStatus{crashed("prepare", 3, "Error")},
				ContainerStatuses:     []corev1.ContainerStatus{waiting("coder", "PodInitializing", "")},
			},
			previous: map[string]string{"prepare": "error: the volume is read-only\n"},
			reason:   coderv1alpha1.ReasonCrashLooping, message: `container "prepare" exited with code 3: the volume is read-only`,
		},
		"an init container's image": {
			status: corev1.PodStatus{
				InitContainerStatuses: []corev1.ContainerStatus{waiting("prepare", "ImagePullBackOff", "unauthorized")},
				ContainerStatuses:     []corev1.ContainerStatus{waiting("coder", "PodInitializing", "")},
			},
			reason: coderv1alpha1.ReasonImagePullFailed, message: `image "registry.example.com/prepare:1" of container "prepare"`,
		},
		"an init container that did its work is no trouble": {
			status: corev1.PodStatus{
				InitContainerStatuses: []corev1.ContainerStatus{ended("prepare", 0)},
				ContainerStatuses:     []corev1.ContainerStatus{running("coder", false)},
			},
			reason: coderv1alpha1.ReasonProgressing, message: "0 of 1 pods are ready",
		},
		"a sidecar crashes": {
			status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{running("coder", true), crashed("proxy", 1, "Error")}},
			reason: coderv1alpha1.ReasonCrashLooping, message: `container "proxy" exited with code 1`,
		},
		"a sidecar needs more memory": {
			status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{running("coder", true), crashed("proxy", 137, "OOMKilled")}},
			reason: coderv1alpha1.ReasonCrashLooping, message: "its memory limit in spec.podTemplate",
		},
		"the process needs more memory": {
			status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{crashed("coder", 137, "OOMKilled")}},
			reason: coderv1alpha1.ReasonCrashLooping, message: "raise spec.resources.limits.memory",
		},
		"a secret in the last words": {
			status:   corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{crashed("coder", 1, "Error")}},
			previous: map[string]string{"coder": "error: cannot log in with hunter22hunter22\n"},
			reason:   coderv1alpha1.ReasonCrashLooping, message: "cannot log in with [redacted]",
		},
		"the node ended it": {
			status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: ephemeral-storage."},
			reason: coderv1alpha1.ReasonPodsRefused, message: "the node terminated the pod (Evicted): The node was low on resource",
		},
		"the node is lost": {
			status: corev1.PodStatus{
				Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}, {Type: corev1.ContainersReady, Status: corev1.ConditionTrue}},
				ContainerStatuses: []corev1.ContainerStatus{crashed("coder", 1, "Error")},
			},
			reason: coderv1alpha1.ReasonNodeLost, message: `node "node-2", on which the pod runs, does not report any more (NodeNotReady); bring the node back`,
		},
		"no node": {
			status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes are available",
			}}},
			reason: coderv1alpha1.ReasonUnschedulable, message: "0/3 nodes are available",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, secretOf("login", map[string]string{"password": "hunter22hunter22"}),
				newControlPlane(withSecretVariable("login", "password")))
			f.Settle()
			f.PodsReady(0)
			f.addPod(c.status)
			f.logs.previous = c.previous
			result := f.Settle()
			condition := f.MustHave(coderv1alpha1.ConditionDeploymentAvailable, metav1.ConditionFalse, c.reason)
			if !strings.Contains(condition.Message, c.message) || strings.Contains(condition.Message, "abcde") {
				t.Errorf("message is %q, want %q and no generated name", condition.Message, c.message)
			}
			if result.RequeueAfter != PollInterval {
				t.Errorf("looks again after %v, want %v", result.RequeueAfter, PollInterval)
			}
		})
	}
}

func TestARefusedPodAndADeadline(t *testing.T) {
	f := newFixture(t, newControlPlane())
	f.Settle()
	d := f.Deployment()
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Conditions: []appsv1.DeploymentCondition{{
		Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: deadlineExceeded,
	}}}
	f.UpdateStatus(d)
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionStalled, metav1.ConditionTrue, coderv1alpha1.ReasonProgressDeadlineExceeded)

	d = f.Deployment()
	d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{
		Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: `pods "coder-rs1-abcde" is forbidden: exceeded quota: q`,
	})
	f.UpdateStatus(d)
	f.Settle()
	condition := f.MustHave(coderv1alpha1.ConditionStalled, metav1.ConditionTrue, coderv1alpha1.ReasonPodsRefused)
	if want := "the API server rejects the pods: exceeded quota: q; raise the ResourceQuota of the namespace, remove other pods, or set or lower the requests and limits in the spec"; condition.Message != want {
		t.Errorf("message is %q, want %q", condition.Message, want)
	}

	// The next revision has its own deadline, which is not in the status yet.
	d = f.Deployment()
	d.Generation++
	f.Update(d)
	f.Settle()
	f.MustNotHave(coderv1alpha1.ConditionStalled)
	f.MustHave(coderv1alpha1.ConditionDeploymentAvailable, metav1.ConditionFalse, coderv1alpha1.ReasonProgressing)
}

func TestScaledToZeroIsReadyAndSaysWhy(t *testing.T) {
	f := newFixture(t, newControlPlane(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.Replicas = ptr.To[int32](0) }))
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonScaledToZero)
	status := f.Object().Status
	for _, c := range status.Conditions {
		if c.Type == coderv1alpha1.ConditionReconciling || c.Type == coderv1alpha1.ConditionStalled {
			t.Errorf("condition %+v", c)
		}
	}
	if want := "app.kubernetes.io/instance=coder"; !strings.Contains(status.Selector, want) {
		t.Errorf("status.selector is %q, want %q in it", status.Selector, want)
	}
}

func TestNamesThatAreTooLongAreToldOnce(t *testing.T) {
	f := newFixture(t)
	for name, want := range map[string]string{
		"my.coder": "must not contain a dot", "1st": "must begin with a letter", strings.Repeat("n", 64): "64 characters and may have 63",
	} {
		cp := newControlPlane()
		p := f.kit.NewPass(planeKind(), cp, &cp.Status.WorkloadStatus, planeWorkload(cp))
		p.Workload.Name = name
		if got := InvalidName(&p); !strings.Contains(got, want) {
			t.Errorf("name %q: %q, want %q", name, got, want)
		}
		p.Workload.Serving = nil
		if got := InvalidName(&p); got != "" {
			t.Errorf("name %q cannot be that of a Deployment: %s", name, got)
		}
	}
	cp := newControlPlane()
	p := f.kit.NewPass(planeKind(), cp, &cp.Status.WorkloadStatus, planeWorkload(cp))
	p.Workload.Serving, p.Workload.Name = nil, "Upper"
	if InvalidName(&p) == "" {
		t.Error(`"Upper" passes for the name of a Deployment`)
	}
}

func TestTheTimeUntilReadyIsMeasuredOnce(t *testing.T) {
	f := newFixture(t, newControlPlane())
	m := newMetrics(t)
	f.options.Metrics = m.Metrics
	f.restart()
	f.Settle()
	f.Forward(30 * time.Second)
	f.PodsReady(1)
	f.Settle()
	// The object was created 30 s before the first pass.
	if count, sum := m.timeToReady(); count != 1 || sum != 60 {
		t.Errorf("%d times until Ready, %v s in all, want 1 of 60 s", count, sum)
	}
	f.PodsReady(0)
	f.Settle()
	f.PodsReady(1)
	f.Settle()
	if count, _ := m.timeToReady(); count != 1 {
		t.Errorf("an outage counts as a time until Ready: %d", count)
	}
	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.Image = "ghcr.io/coder/coder:v2.30.1" })
	f.Settle()
	if count, sum := m.timeToReady(); count != 2 || sum != 60 {
		t.Errorf("%d times until Ready, %v s in all, want a second of 0 s", count, sum)
	}
	if got := m.series("coder_k8s_ready"); len(got) != 1 || got[0] != 1 {
		t.Errorf("coder_k8s_ready is %v", got)
	}
	f.Remove(f.Object())
	f.Reconcile()
	if got := m.series("coder_k8s_ready"); len(got) != 0 {
		t.Errorf("coder_k8s_ready is told of an object that is gone: %v", got)
	}
}

func TestRedact(t *testing.T) {
	var redactor redaction.Redactor
	for _, value := range []string{"postgres://coder:p%40ss-word@db:5432/coder", "hunter22", "off"} {
		redactor.Learn(value)
	}
	for name, c := range map[string]struct{ text, want string }{
		"URL":                     {"bad postgres://u:secret@db:5432/x here", "bad postgres://[redacted]@db:5432/x here"},
		"URL, password with @ /":  {"bad postgres://u:se@cr/et@db/x here", "bad postgres://[redacted]@db/x here"},
		"the value itself":        {"tried hunter22 twice", "tried [redacted] twice"},
		"the whole URL":           {"tried postgres://coder:p%40ss-word@db:5432/coder", "tried [redacted]"},
		"the password in it":      {"tried p%40ss-word", "tried [redacted]"},
		"the password, unescaped": {"tried p@ss-word", "tried [redacted]"},
		"key and value":           {"dsn host=db password=abc user=u", "dsn host=db password=[redacted] user=u"},
		"short values are words":  {"ssl is off", "ssl is off"},
		"nothing to hide":         {"dial tcp 10.0.0.1:5432: connection refused", "dial tcp 10.0.0.1:5432: connection refused"},
	} {
		if got := redactor.Quote(c.text, longestQuote); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
