package status

import (
	"time"

	"github.com/coder-k8s/coder-k8s/internal/installation"
)

// Report is what -o json prints.
type Report struct {
	// Namespace is the only one that was looked at, or empty for all.
	Namespace     string     `json:"namespace,omitempty"`
	ControlPlanes []Workload `json:"controlPlanes"`
	Provisioners  []Workload `json:"provisioners"`
	// WorkspaceProxies are those of which the operator takes care.
	WorkspaceProxies []Workload `json:"workspaceProxies"`
	Templates        Count      `json:"templates"`
	Workspaces       Count      `json:"workspaces"`
	// Problems are what is wrong: with the installation first, then with objects.
	Problems []Problem `json:"problems"`
	// NotSeen says what could not be looked at, and why.
	NotSeen []string `json:"notSeen,omitempty"`

	// planesSeen says that there are no other control planes.
	planesSeen bool
}

// Workload is an object of one of the three kinds.
type Workload struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Ready and State are the status and the reason of the condition Ready, which kubectl
	// get shows as READY and STATUS.
	Ready string `json:"ready"`
	State string `json:"state"`
	// ReadyPods and Pods count the pods.
	ReadyPods int32 `json:"readyPods"`
	Pods      int32 `json:"pods"`
	// Version is that of the Coder that answered last.
	Version string `json:"version,omitempty"`
	// Of is the control plane, or the address of the Coder, that it belongs to.
	Of      string    `json:"of,omitempty"`
	URL     string    `json:"url,omitempty"`
	Created time.Time `json:"created"`
}

// Problem is what is wrong with the installation or with an object.
type Problem struct {
	installation.Problem `json:",inline"`
	// Kind, Namespace, Name and Reason are those of an object that is not ready.
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Reason    string `json:"reason,omitempty"`
}

// Count is how many objects there are, and in which states.
type Count struct {
	// Unseen says that it is not known how many there are.
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
