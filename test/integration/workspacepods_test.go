package integration

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// workspacePod returns a pod as a template of Coder creates it.
func workspacePod(ns, name string, id uuid.UUID) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{"com.coder.workspace.id": id.String()}},
		Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "main", Image: "registry.example.com/ws:1"}}},
	}
}

func setWaiting(t *testing.T, pod *corev1.Pod, reason, message string) {
	t.Helper()
	pod.Status.Phase = corev1.PodPending
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", Image: "x", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
	}}
	if err := environment.client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
}

// TestPodsOfWorkspaces checks that, with its shipped permissions, the aggregated API
// shows the problems of pods, including those that only an Event reports, and
// ignores the label in a namespace that the control plane may not use.
func TestPodsOfWorkspaces(t *testing.T) {
	names, proxy := startCoders(t)
	ns, elsewhere := namespace(t), namespace(t)
	controller := startProcess(t, proxy, "--app=controller", "--leader-elect=false", "--watch-namespaces="+ns)
	controller.ready(t)
	coder := controlPlaneReady(t, names, ns, "coder")
	controller.kill()
	id := coder.AddWorkspace("admin", coder.AddTemplate("coder", "hello", map[string]string{"main.tf": "# nothing\n"}), "dev")
	coder.SetAgents(id, coderdtest.Agent{Name: "main", Status: "connected", LifecycleState: "ready"})
	replica := startReplicas(t, proxy, 1, "--watch-namespaces="+ns)
	replica.leader(t)
	becomes := func(what, want string) {
		t.Helper()
		polltest.Eventually(t, what, func(ctx context.Context) error {
			ws, err := replica[0].client.Resource(workspacesGVR).Namespace(ns).Get(ctx, "coder.admin.dev", metav1.GetOptions{})
			if err != nil {
				return err
			}
			all, _, err := unstructured.NestedSlice(ws.Object, "status", "conditions")
			for _, c := range all {
				if c, ok := c.(map[string]any); ok && c["type"] == "Ready" && c["reason"] != want {
					return fmt.Errorf("Ready is %v: %v", c["reason"], c["message"])
				}
			}
			return err
		})
	}
	forged := workspacePod(elsewhere, "forged", id)
	create(t, forged)
	setWaiting(t, forged, "ErrImagePull", "not found")
	becomes("the workspace is ready", "Running")

	pod := workspacePod(ns, "dev", id)
	create(t, pod)
	setWaiting(t, pod, "ErrImagePull", "not found")
	becomes("the image cannot be pulled", "ImagePullFailed")
	if err := environment.client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	becomes("the pod is gone", "PodGone")

	next := workspacePod(ns, "next", id)
	create(t, next)
	setWaiting(t, next, "ContainerCreating", "")
	create(t, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "next.1"}, Reason: "FailedMount", Message: `secret "nothing" not found`,
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: ns, Name: "next", UID: next.UID},
	})
	becomes("a volume cannot be mounted", "VolumeMountFailed")
	next.Status.Phase, next.Status.ContainerStatuses[0].State = corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	if err := environment.client.Status().Update(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	becomes("the workspace is ready again", "Running")
}
