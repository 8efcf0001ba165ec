package apiserver

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

// TestPodsOfAWorkspace covers a pod that gets a problem and recovers, while the state in Coder does
// not change.
func TestPodsOfAWorkspace(t *testing.T) {
	t.Parallel()
	s := newRestingSite(t)
	f := join(t, s)
	id := f.addWorkspace(t, "dev")
	other := f.addWorkspace(t, "other")
	for _, workspace := range []uuid.UUID{id, other} {
		f.coder.SetAgents(workspace, coderdtest.Agent{Name: "main", Status: "connected", LifecycleState: "ready"})
	}
	f.hint(id, other)
	is := func(ready, pods string) func(*unstructured.Unstructured) bool {
		return func(ws *unstructured.Unstructured) bool {
			return condition(ws, "Ready") == ready && condition(ws, "PodsHealthy") == pods
		}
	}
	f.workspace(t, "coder.ada.dev", is("True Running", "absent"))
	pods := f.kube.CoreV1().Pods(f.namespace)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "dev", UID: "1", Labels: map[string]string{"com.coder.workspace.id": id.String()}},
		Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "main", Image: "nowhere/x:1"}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}},
		}}},
	}
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.workspace(t, "coder.ada.dev", is("False ImagePullFailed", "False ImagePullFailed"))
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	if _, err := pods.Update(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.workspace(t, "coder.ada.dev", is("True Running", "absent"))
	if err := pods.Delete(t.Context(), "dev", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.workspace(t, "coder.ada.dev", is("False PodGone", "False PodGone"))
	f.workspace(t, "coder.ada.other", is("True Running", "absent"))
}

func TestAgentLog(t *testing.T) {
	f := newFixture(t)
	id := f.addWorkspace(t, "dev")
	f.coder.SetAgents(id, coderdtest.Agent{Name: "main", Status: "connected", LifecycleState: "start_error"})
	f.coder.WriteAgentLog(id, "main", "Startup Script", "one", "two")
	f.coder.WriteAgentLog(id, "main", "Dotfiles", "three")
	for query, want := range map[string]string{
		"source=agent":                                   "[Startup Script] one\n",
		"source=agent&agent=main&tailLines=1":            "[Dotfiles] three\n",
		"source=agent&script=Startup+Script&tailLines=1": "[Startup Script] two\n",
	} {
		got := f.do(t, http.MethodGet, f.path("coderworkspaces/coder.ada.dev/log?"+query), nil, "")
		if _, line, _ := strings.Cut(got.body, " "); got.status != http.StatusOK || !strings.HasPrefix(line, want) {
			t.Errorf("%s: HTTP %d: %s", query, got.status, got.body)
		}
	}
	for query, want := range map[string]string{
		"source=agent&agent=other": `agent is \"other\", and must be one of main`,
		"source=agent&script=x":    `script is \"x\", and must be one of [\"Dotfiles\" \"Startup Script\"]`,
		"source=pods":              `source is \"pods\", and must be build or agent`,
		"agent=main":               "agent and script need source=agent",
		"source=agent&build=1":     "build needs source=build",
		"tailLines=-1":             "tailLines is -1",
	} {
		got := f.do(t, http.MethodGet, f.path("coderworkspaces/coder.ada.dev/log?"+query), nil, "")
		if got.status != http.StatusBadRequest || !strings.Contains(got.body, want) {
			t.Errorf("%s: HTTP %d: %s", query, got.status, got.body)
		}
	}
	f.coder.BuildWorkspace(id, "stop")
	f.hint(id)
	if got := f.do(t, http.MethodGet, f.path("coderworkspaces/coder.ada.dev/log?source=agent"), nil, ""); got.status != http.StatusConflict {
		t.Errorf("of a stopped workspace: HTTP %d: %s", got.status, got.body)
	}
}
