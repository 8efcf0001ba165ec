package controllertest

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// PodOf returns a pod of a Job.
func PodOf(job *batchv1.Job) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: job.Namespace, Name: job.Name + "-" + string(job.UID), UID: "pod-of-" + job.UID, Labels: map[string]string{batchv1.JobNameLabel: job.Name},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID, Controller: ptr.To(true)}},
	}, Spec: *job.Spec.Template.Spec.DeepCopy()}
}

// EndJob ends a Job like Kubernetes. The message is the termination message of its pod.
func EndJob(f *kubetest.Fixture, job *batchv1.Job, how batchv1.JobConditionType, reason, message string) {
	f.T.Helper()
	if message != "" {
		pod := PodOf(job)
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: job.Spec.Template.Spec.Containers[0].Name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: message}},
		}}
		f.Create(pod)
	}
	now := metav1.NewTime(f.Clock.Now())
	job.Status.StartTime = &now
	if how == batchv1.JobComplete {
		job.Status.CompletionTime = &now
	}
	job.Status.Conditions = []batchv1.JobCondition{{Type: how, Status: corev1.ConditionTrue, Reason: reason}}
	f.UpdateStatus(job)
}
