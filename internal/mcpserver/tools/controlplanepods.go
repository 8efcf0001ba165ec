package tools

import (
	"cmp"
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

const (
	defaultPods = 100
	maxPods     = 500
)

type listControlPlanePodsInput struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Limit     int    `json:"limit,omitempty" default:"100" maximum:"500"`
	Cursor    string `json:"cursor,omitempty"`
}

// Pod is the list entry of a pod. Reason and Message describe a problem of the whole pod,
// for example that it cannot be scheduled or was evicted.
type Pod struct {
	Name            string         `json:"name"`
	Namespace       string         `json:"namespace"`
	Phase           string         `json:"phase"`
	NodeName        string         `json:"nodeName,omitempty"`
	ReadyContainers int            `json:"readyContainers"`
	TotalContainers int            `json:"totalContainers"`
	StartTime       string         `json:"startTime,omitempty"`
	DeletingSince   string         `json:"deletingSince,omitempty"`
	Reason          string         `json:"reason,omitempty"`
	Message         string         `json:"message,omitempty"`
	Containers      []PodContainer `json:"containers"`
}

// PodContainer is a container of a pod. State is waiting, running or terminated.
type PodContainer struct {
	Name     string       `json:"name"`
	Image    string       `json:"image,omitempty"`
	Init     bool         `json:"init,omitempty"`
	Ready    bool         `json:"ready"`
	Restarts int32        `json:"restarts"`
	State    string       `json:"state"`
	Reason   string       `json:"reason,omitempty"`
	Message  string       `json:"message,omitempty"`
	Last     *Termination `json:"lastTermination,omitempty"`
}

// Termination describes how a container ended.
type Termination struct {
	ExitCode   int32  `json:"exitCode"`
	Reason     string `json:"reason,omitempty"`
	Message    string `json:"message,omitempty"`
	FinishedAt string `json:"finishedAt,omitempty"`
}

func listControlPlanePods(ctx context.Context, call *toolset.Call, in listControlPlanePodsInput) (listOutput[Pod], error) {
	if err := toolset.RequireObject(in.Namespace, in.Name); err != nil {
		return listOutput[Pod]{}, err
	}
	page, err := toolset.NewPageWithin(in.Limit, in.Cursor, defaultPods, maxPods)
	if err != nil {
		return listOutput[Pod]{}, err
	}
	// The pods of a Deployment that was adopted have other labels. A caller who may not read the
	// control plane gets the pods with the usual ones.
	podLabels := coderv1alpha1.ControlPlaneLabels(in.Name)
	cp, cpErr := readControlPlane(ctx, call.Kube, in.Namespace, in.Name)
	if cpErr == nil {
		podLabels = cp.PodLabels()
	}
	options := page.Options(in.Namespace)
	options.LabelSelector, err = labels.ValidatedSelectorFromSet(podLabels)
	if err != nil {
		return listOutput[Pod]{}, toolset.UsageError("name is not a valid name of a control plane; list_control_planes shows all names")
	}
	var list corev1.PodList
	if err := call.Kube.List(ctx, &list, options); err != nil {
		return listOutput[Pod]{}, callError("list", "pods", in.Namespace, "", err)
	}
	if len(list.Items) == 0 && apierrors.IsNotFound(cpErr) {
		return listOutput[Pod]{}, cpErr
	}
	return onePage(page, list.Items, list.Continue, DescribePod), nil
}

// DescribePod describes a pod for an answer.
func DescribePod(p *corev1.Pod) Pod {
	d := Pod{
		Name: p.Name, Namespace: p.Namespace, Phase: string(p.Status.Phase), NodeName: p.Spec.NodeName,
		TotalContainers: len(p.Spec.Containers), StartTime: timestampOf(p.Status.StartTime), DeletingSince: timestampOf(p.DeletionTimestamp),
		Containers: make([]PodContainer, 0, len(p.Status.InitContainerStatuses)+len(p.Status.ContainerStatuses)),
	}
	d.Reason, d.Message = podTrouble(p)
	for i := range p.Status.InitContainerStatuses {
		c := describeContainer(&p.Status.InitContainerStatuses[i])
		c.Init = true
		d.Containers = append(d.Containers, c)
	}
	for i := range p.Status.ContainerStatuses {
		c := describeContainer(&p.Status.ContainerStatuses[i])
		d.Containers = append(d.Containers, c)
		if c.Ready {
			d.ReadyContainers++
		}
	}
	return d
}

// podTrouble returns the reason and the message from the pod's status, or those for which
// it could not be scheduled.
func podTrouble(p *corev1.Pod) (reason, message string) {
	if p.Status.Reason != "" {
		return messageExcerpt(p.Status.Reason), messageExcerpt(p.Status.Message)
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return messageExcerpt(c.Reason), messageExcerpt(c.Message)
		}
	}
	return "", ""
}

func describeContainer(s *corev1.ContainerStatus) PodContainer {
	c := PodContainer{Name: s.Name, Image: s.Image, Ready: s.Ready, Restarts: s.RestartCount}
	switch {
	case s.State.Running != nil:
		c.State = "running"
	case s.State.Terminated != nil:
		c.State = "terminated"
	default:
		c.State = "waiting"
		if waiting := s.State.Waiting; waiting != nil {
			c.Reason, c.Message = messageExcerpt(waiting.Reason), messageExcerpt(waiting.Message)
		}
	}
	if ended := cmp.Or(s.State.Terminated, s.LastTerminationState.Terminated); ended != nil {
		c.Last = &Termination{
			ExitCode: ended.ExitCode, Reason: messageExcerpt(ended.Reason), Message: messageExcerpt(ended.Message), FinishedAt: timestampOf(&ended.FinishedAt),
		}
	}
	return c
}
