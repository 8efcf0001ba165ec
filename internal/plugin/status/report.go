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
	Problems []installation.Problem `json:"problems"`
	// NotSeen says what could not be looked at, and why.
	NotSeen []string `json:"notSeen,omitempty"`

	// planesSeen says that there are no other control planes.
	planesSeen bool
}

// Workload is an object of one of the three kinds.
type Workload struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// State is Ready, Pending, or the reason for which it is not ready.
	State string `json:"state"`
	// Ready and Pods count the pods.
	Ready int32 `json:"readyPods"`
	Pods  int32 `json:"pods"`
	// Version is that of the Coder that answered last.
	Version string `json:"version,omitempty"`
	// Of is the control plane, or the address of the Coder, that it belongs to.
	Of      string    `json:"of,omitempty"`
	URL     string    `json:"url,omitempty"`
	Created time.Time `json:"created"`
	// ready is the colour of it.
	ready bool
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
