package status

import (
	"time"

	"github.com/coder-k8s/coder-k8s/internal/installation"
)

// Report is the output of -o json.
type Report struct {
	// Namespace is the namespace of the report, or empty for all namespaces.
	Namespace     string     `json:"namespace,omitempty"`
	ControlPlanes []Workload `json:"controlPlanes"`
	Provisioners  []Workload `json:"provisioners"`
	// WorkspaceProxies are the proxies that the operator manages.
	WorkspaceProxies []Workload `json:"workspaceProxies"`
	Templates        Count      `json:"templates"`
	Workspaces       Count      `json:"workspaces"`
	// Problems are the problems of the installation, followed by those of objects.
	Problems []Problem `json:"problems"`
	// NotSeen lists what could not be read, and why.
	NotSeen []string `json:"notSeen,omitempty"`

	// planesSeen reports that the list of control planes is complete.
	planesSeen bool
}

// Workload is a control plane, provisioner or proxy.
type Workload struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Ready and State are the status and the reason of the condition Ready. kubectl get shows them
	// as READY and STATUS.
	Ready string `json:"ready"`
	State string `json:"state"`
	// ReadyPods and Pods are the numbers of pods.
	ReadyPods int32 `json:"readyPods"`
	Pods      int32 `json:"pods"`
	// Version is the version of Coder in the status.
	Version string `json:"version,omitempty"`
	// Of is the control plane that it belongs to, or the URL of the Coder.
	Of      string    `json:"of,omitempty"`
	URL     string    `json:"url,omitempty"`
	Created time.Time `json:"created"`
}

// Problem is a problem of the installation or of an object.
type Problem struct {
	installation.Problem `json:",inline"`
	// Kind, Namespace, Name and Reason are set for an object that is not ready.
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Reason    string `json:"reason,omitempty"`
}

// Count is the number of objects, in total and by state.
type Count struct {
	// Unseen reports that the number is unknown.
	Unseen  bool           `json:"unseen,omitempty"`
	Total   int            `json:"total"`
	ByState map[string]int `json:"byState,omitempty"`
}

func (c *Count) add(state string) {
	if c.ByState == nil {
		c.ByState = map[string]int{}
	}
	c.Total++
	c.ByState[state]++
}
