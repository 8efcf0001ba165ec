package mirror

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/syncstatus"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// manyApps returns the agents of a workspace whose record would need about 2 MiB.
func manyApps() []coderd.Agent {
	var agents []coderd.Agent
	for i := range 10 {
		agent := coderd.Agent{Name: fmt.Sprint("agent-", i), Status: "connected"}
		for j := range 50 {
			agent.Apps = append(agent.Apps, coderd.App{Slug: fmt.Sprint("app-", j), ExternalURL: "https://example.com/" + strings.Repeat("x", 4000)})
		}
		agents = append(agents, agent)
	}
	return agents
}

// TestALargeWorkspace covers a workspace that does not fit into a record. It is served without its
// apps, all others are served too, and the status of the control plane counts it.
func TestALargeWorkspace(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "prod")
	c.fill(5)
	id := c.create("ada", "large")
	c.items[id].Agents = manyApps()
	c.finish(id)
	s.until(time.Minute, "Ready", s.ready(c))
	if got := s.state(c).Incomplete; got != 1 {
		t.Errorf("%d objects are incomplete", got)
	}
	entry, _ := s.records.Workspaces.Table.Find(c.name, uidOf(id))
	if entry == nil || s.records.Workspaces.Table.Count(c.name) != 6 {
		t.Fatalf("%d objects are served", s.records.Workspaces.Table.Count(c.name))
	}
	ws := entry.Object.(*aggregationv1alpha1.CoderWorkspace)
	truncated := meta.FindStatusCondition(ws.Status.Conditions, "Truncated")
	if truncated == nil || !strings.Contains(truncated.Message, "status.agents[*].apps") || len(ws.Status.Agents) != 10 || ws.Status.Agents[0].Apps != nil {
		t.Errorf("it is %+v", ws.Status)
	}
	// Reading it again changes nothing.
	writes := len(s.records.Writes())
	s.run(5 * time.Minute)
	if got := s.records.Writes()[writes:]; len(got) > 0 {
		t.Errorf("unneeded writes: %v", got)
	}
	c.mu.Lock()
	c.items[id].Agents = nil
	c.mu.Unlock()
	s.until(time.Minute, "the object is complete", func() bool { return s.state(c).Incomplete == 0 })
	c.drop(id)
	s.until(2*time.Minute, "the object is gone", func() bool { return s.records.Workspaces.Table.Count(c.name) == 5 })
}

// TestARefusedRecord covers records that kube-apiserver does not accept for any permanent reason. All
// other objects are served, before the control plane was served and after an outage of Coder.
func TestARefusedRecord(t *testing.T) {
	kind := schema.GroupKind{Group: "internal.coder.com", Kind: "CoderWorkspaceRecord"}
	for name, reason := range map[string]error{
		"invalid":     apierrors.NewInvalid(kind, "x", nil),
		"bad request": apierrors.NewBadRequest("the webhook denied the request"),
		"too large":   apierrors.NewRequestEntityTooLargeError("limit is 3145728"),
		"policy":      apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no")),
		"webhook":     apierrors.NewConflict(schema.GroupResource{}, "x", errors.New(`admission webhook "w" denied the request: no`)),
		"etcd":        apierrors.NewInternalError(errors.New("etcdserver: request is too large")),
		"etcd's client": apierrors.NewInternalError(errors.New(
			"rpc error: code = ResourceExhausted desc = trying to send message larger than max (2100000 vs. 2097152)")),
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, 1)
			c := s.add("team", "prod")
			c.fill(5)
			id := c.create("ada", "refused")
			c.finish(id)
			cluster := s.records.Cluster("CoderWorkspace")
			cluster.Refuse("coder.ada.refused", reason)
			s.until(time.Minute, "Ready", s.ready(c))
			table := s.records.Workspaces.Table
			if got := s.state(c); got.Incomplete != 1 || table.Count(c.name) != 5 {
				t.Errorf("%d objects are served: %+v", table.Count(c.name), got)
			}
			pages := c.calls["page"]
			s.run(10 * time.Minute)
			if got := c.calls["page"] - pages; got > 1 {
				t.Errorf("all workspaces were read %d times", got)
			}
			c.fault = func(string) error { return &coderd.Error{Op: "reading", StatusCode: http.StatusServiceUnavailable} }
			s.until(2*time.Minute, "stale", func() bool { return s.state(c).State == syncstatus.Stale })
			c.fault = nil
			s.until(2*time.Minute, "Ready again", s.ready(c))
			cluster.Refuse("coder.ada.refused", nil)
			s.until(10*time.Minute, "it is stored", func() bool { return s.state(c).Incomplete == 0 && table.Count(c.name) == 6 })
			s.equal(c)
		})
	}
}

// TestTransientFailures checks that all records are tried again after an error that other records would
// get too, and that the control plane is not Ready before.
func TestTransientFailures(t *testing.T) {
	for name, reason := range map[string]error{
		"429":     apierrors.NewTooManyRequests("slow down", 1),
		"500":     apierrors.NewInternalError(errors.New("etcdserver: leader changed")),
		"504":     apierrors.NewTimeoutError("slow", 1),
		"503":     apierrors.NewServiceUnavailable("starting"),
		"403":     apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("exceeded quota")),
		"network": errors.New("connection refused"),
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, 1)
			c := s.add("team", "prod")
			c.fill(5)
			c.finish(c.create("ada", "refused"))
			s.records.Cluster("CoderWorkspace").Refuse("coder.ada.refused", reason)
			s.run(time.Minute)
			if got := s.state(c); got.State == syncstatus.Ready || got.Incomplete != 0 {
				t.Errorf("it is %+v", got)
			}
			s.records.Cluster("CoderWorkspace").Refuse("coder.ada.refused", nil)
			s.until(5*time.Minute, "Ready", s.ready(c))
			s.equal(c)
		})
	}
}

// TestAllRecordsAreRefused covers a cluster that accepts no record at all. The cause is no object, so the
// control plane does not become Ready without its objects.
func TestAllRecordsAreRefused(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "prod")
	c.fill(5)
	s.records.Cluster("CoderWorkspace").Full(apierrors.NewInvalid(schema.GroupKind{}, "x", nil))
	s.run(2 * time.Minute)
	if got := s.state(c); got.State != syncstatus.Syncing {
		t.Errorf("it is %+v", got)
	}
	s.records.Cluster("CoderWorkspace").Full(nil)
	s.until(5*time.Minute, "Ready", s.ready(c))
	s.equal(c)
}
