package podproblem

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func ended(reason string, code int32) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code}}
}

func running() corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
}

// podWith returns a pod whose container main has the given current and previous state.
func podWith(now, before corev1.ContainerState) *corev1.Pod {
	return &corev1.Pod{
		Spec: corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "main", Image: "registry.example.com/ws:1"}}},
		Status: corev1.PodStatus{
			Phase:             corev1.PodPending,
			ContainerStatuses: []corev1.ContainerStatus{{Name: "main", State: now, LastTerminationState: before}},
		},
	}
}

func TestFind(t *testing.T) {
	unschedulable, evicted, failedInit, completed := &corev1.Pod{}, &corev1.Pod{}, podWith(waiting("PodInitializing", ""), corev1.ContainerState{}), podWith(ended("Completed", 0), corev1.ContainerState{})
	unschedulable.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
	}}
	evicted.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: memory."}
	failedInit.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "home", State: waiting("CrashLoopBackOff", ""), LastTerminationState: ended("Error", 2)}}
	onLostNode := func(reason string) *corev1.Pod {
		p := podWith(running(), ended("Error", 1))
		p.Spec.NodeName = "node-2"
		p.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: reason}, {Type: corev1.ContainersReady, Status: corev1.ConditionTrue},
		}
		return p
	}
	none := corev1.ContainerState{}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"new":           {&corev1.Pod{}, ""},
		"creating":      {podWith(waiting("ContainerCreating", ""), none), ""},
		"running":       {podWith(running(), none), ""},
		"running again": {podWith(running(), ended("Error", 1)), ""},
		"completed":     {completed, ""},
		"image": {
			podWith(waiting("ErrImagePull", `rpc error: code = NotFound desc = "registry.example.com/ws:1": not found`), none),
			`ImagePull: image "registry.example.com/ws:1" of container "main" cannot be pulled (ErrImagePull): the registry has no such image or tag`,
		},
		"image, no cause": {
			podWith(waiting("ImagePullBackOff", "Back-off pulling image"), none),
			`ImagePull: image "registry.example.com/ws:1" of container "main" cannot be pulled (ImagePullBackOff)`,
		},
		"secret": {
			podWith(waiting("CreateContainerConfigError", `secret "x" not found`), none),
			`Config: container "main" cannot be created (CreateContainerConfigError): secret "x" not found`,
		},
		"claim":       {unschedulable, "Unschedulable: no node accepts the pod (Unschedulable): 0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."},
		"evicted":     {evicted, "Evicted: the node terminated the pod (Evicted): The node was low on resource: memory."},
		"lost node":   {onLostNode(""), `NodeLost: node "node-2", on which the pod runs, does not report any more (NodeNotReady)`},
		"gate":        {onLostNode("ReadinessGatesNotReady"), ""},
		"crash loop":  {podWith(waiting("CrashLoopBackOff", "back-off 10s"), ended("Error", 3)), `Crash: container "main" exited with code 3 (CrashLoopBackOff)`},
		"exits well":  {podWith(waiting("CrashLoopBackOff", "back-off 10s"), ended("Completed", 0)), `Crash: container "main" exited with code 0 (CrashLoopBackOff)`},
		"not again":   {podWith(ended("Error", 1), none), `Crash: container "main" exited with code 1 (Error)`},
		"memory":      {podWith(waiting("CrashLoopBackOff", ""), ended("OOMKilled", 137)), `OutOfMemory: container "main" exceeded its memory limit (OOMKilled)`},
		"failed init": {failedInit, `Crash: container "home" exited with code 2 (CrashLoopBackOff)`},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if p := Find(c.pod); p != nil {
				got = string(p.Kind) + ": " + p.Sentence(func(s string) string { return s })
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFromEvents(t *testing.T) {
	at := time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)
	event := func(reason, message string, age time.Duration) corev1.Event {
		return corev1.Event{Reason: reason, Message: message, LastTimestamp: metav1.NewTime(at.Add(-age))}
	}
	if p := FromEvents([]corev1.Event{event("Scheduled", "", 0), event("Pulling", "", 0)}); p != nil {
		t.Errorf("nothing is wrong: %+v", p)
	}
	p := FromEvents([]corev1.Event{
		event("FailedMount", "old", time.Minute), event("FailedAttachVolume", "new", time.Second), event("Scheduled", "", 0),
		event("FailedMount", "older", time.Hour),
	})
	if p == nil || p.Kind != Volume || p.Reason != "FailedAttachVolume" || p.Message != "new" {
		t.Errorf("%+v", p)
	}
	// The newer API of Events uses another time field.
	sandbox := corev1.Event{Reason: "FailedCreatePodSandBox", Message: "no network", EventTime: metav1.NewMicroTime(at)}
	if p := FromEvents([]corev1.Event{event("FailedMount", "old", time.Minute), sandbox}); p == nil || p.Kind != Sandbox {
		t.Errorf("%+v", p)
	}
}

func TestIsStuck(t *testing.T) {
	none := corev1.ContainerState{}
	unscheduled := podWith(none, none)
	unscheduled.Spec.NodeName, unscheduled.Status.ContainerStatuses = "", nil
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"creating":    {podWith(waiting("ContainerCreating", ""), none), true},
		"pulling":     {podWith(waiting("ErrImagePull", ""), none), false},
		"running":     {podWith(running(), none), false},
		"unscheduled": {unscheduled, false},
	} {
		if got := IsStuck(c.pod); got != c.want {
			t.Errorf("%s: stuck is %t", name, got)
		}
	}
}

func TestPullCauses(t *testing.T) {
	for said, want := range map[string]PullCause{
		"ErrImageNeverPull Container image is not present with pull policy of Never":       "it is not on the node, and the pull policy is Never",
		`InvalidImageName couldn't parse image name "x:y:z": invalid reference format`:     "the image name is not valid",
		"dial tcp: lookup nowhere.example.com: no such host":                               "the name of the registry does not resolve",
		"manifest unknown: manifest unknown":                                               "the registry has no such image or tag",
		"pull access denied, repository does not exist or may require authorization":       "the registry refuses access, or has no such image",
		"tls: failed to verify certificate: x509: certificate signed by unknown authority": "the certificate of the registry is not trusted",
		"429 Too Many Requests":                              "the rate limit of the registry is exceeded",
		"dial tcp 10.0.0.1:443: connect: connection refused": "the registry does not respond",
		"Back-off pulling image":                             PullCauseUnknown,
	} {
		if got := (&Problem{Message: said}).PullCause(); got != want {
			t.Errorf("%s: got %q, want %q", said, got, want)
		}
	}
}

func TestKeepsCrashing(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC))
	run := func(length time.Duration, code int32) corev1.ContainerState {
		state := ended("Error", code)
		state.Terminated.StartedAt, state.Terminated.FinishedAt = at, metav1.NewTime(at.Add(length))
		return state
	}
	backOff := waiting("CrashLoopBackOff", "")
	for name, c := range map[string]struct {
		status corev1.ContainerStatus
		want   bool
	}{
		"at once, many times": {corev1.ContainerStatus{State: backOff, LastTerminationState: run(time.Second, 1), RestartCount: 5}, true},
		"it runs again":       {corev1.ContainerStatus{State: running(), LastTerminationState: run(time.Second, 1), RestartCount: 5}, true},
		"a few times":         {corev1.ContainerStatus{State: backOff, LastTerminationState: run(time.Second, 1), RestartCount: 4}, false},
		"after an hour":       {corev1.ContainerStatus{State: backOff, LastTerminationState: run(time.Hour, 1), RestartCount: 9}, false},
		"ended well":          {corev1.ContainerStatus{State: running(), LastTerminationState: run(time.Second, 0), RestartCount: 9}, false},
		"never":               {corev1.ContainerStatus{State: running()}, false},
	} {
		if got := KeepsCrashing(&c.status); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
