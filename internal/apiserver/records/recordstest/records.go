package recordstest

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// Records holds the stores of all kinds.
type Records struct {
	*records.Keeper
	Workspaces, Templates, Users *records.Store

	t        testing.TB
	clusters map[string]*Cluster
	clock    clock.PassiveClock
}

// New returns empty Records.
func New(t testing.TB) *Records {
	t.Helper()
	return NewWithClock(t, clock.RealClock{})
}

// NewWithClock returns empty Records that use a clock.
func NewWithClock(t testing.TB, c clock.PassiveClock) *Records {
	t.Helper()
	etcd := &Etcd{}
	return join(t, c, map[string]*Cluster{
		"CoderWorkspace": NewCluster(etcd, "coderworkspacerecords"), "CoderTemplate": NewCluster(etcd, "codertemplaterecords"),
		"CoderTemplateSource": NewCluster(etcd, "codertemplatesources"), "CoderUser": NewCluster(etcd, "coderuserrecords"),
	})
}

// Replica returns another replica on the same clusters that has read all records.
func (r *Records) Replica() *Records {
	r.t.Helper()
	out := join(r.t, r.clock, r.clusters)
	for _, s := range []*records.Store{out.Workspaces, out.Templates, out.Users} {
		for _, record := range out.clusters[s.Kind()].All() {
			if err := s.Learn(context.Background(), s.Key(record.Namespace, record.Name)); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	return out
}

func join(t testing.TB, c clock.PassiveClock, clusters map[string]*Cluster) *Records {
	t.Helper()
	r := &Records{t: t, clock: c, clusters: clusters}
	r.Workspaces = records.NewStore(records.Workspaces(clusters["CoderWorkspace"], "replica", "coder-system", c))
	r.Templates = records.NewStore(records.Templates(clusters["CoderTemplate"], clusters["CoderTemplateSource"], "replica", "coder-system", c))
	r.Users = records.NewStore(records.Users(clusters["CoderUser"], "replica", "coder-system", c))
	r.Keeper = records.NewKeeper(r.Workspaces, r.Templates, r.Users)
	return r
}

// Cluster returns the Cluster of a kind.
func (r *Records) Cluster(kind string) *Cluster { return r.clusters[kind] }

// All returns the kept metadata of all objects.
func (r *Records) All() []*metadata.Record {
	r.t.Helper()
	var out []*metadata.Record
	for _, s := range []*records.Store{r.Templates, r.Workspaces, r.Users} {
		for _, record := range r.clusters[s.Kind()].All() {
			kept, err := metadata.Read(record.Kept)
			if err != nil {
				r.t.Fatal(err)
			}
			if record.Kept == "" && record.ID != "" {
				continue
			}
			kept.ControlPlane = types.NamespacedName{Namespace: record.Namespace, Name: record.ControlPlane}
			kept.Kind, kept.Name, kept.UID = s.Kind(), record.Name, types.UID(record.ID)
			out = append(out, kept)
		}
	}
	return out
}

// Writes returns the writes that arrived, for example "ADDED team/coder.ada.dev".
func (r *Records) Writes() []string {
	var out []string
	for _, s := range []*records.Store{r.Templates, r.Workspaces, r.Users} {
		for _, event := range r.clusters[s.Kind()].Events() {
			out = append(out, string(event.Type)+" "+event.Record.Namespace+"/"+event.Record.Name)
		}
	}
	return out
}

// Edit changes the kept metadata of a workspace, as a user with kubectl edit does.
func (r *Records) Edit(controlPlane types.NamespacedName, uid types.UID, edit func(*metadata.Record)) {
	r.t.Helper()
	ctx := context.Background()
	key, ok := r.Workspaces.Table.KeyOf(controlPlane, uid)
	if !ok {
		r.t.Fatalf("there is no record of %s", uid)
	}
	namespace, name := r.Workspaces.Locate(key)
	record, err := r.clusters["CoderWorkspace"].Get(ctx, namespace, name, "")
	if err != nil {
		r.t.Fatal(err)
	}
	kept, err := metadata.Read(record.Kept)
	if err != nil {
		r.t.Fatal(err)
	}
	edit(kept)
	if record.Kept, err = kept.Text(); err != nil {
		r.t.Fatal(err)
	}
	if err := r.clusters["CoderWorkspace"].Update(ctx, record); err != nil {
		r.t.Fatal(err)
	}
	if err := r.Workspaces.Learn(ctx, key); err != nil {
		r.t.Fatal(err)
	}
}

// Mortal injects a fault around each write of the records.
type Mortal struct {
	*Records
	Fault *kubetest.Fault
}

// Put implements metadata.Records.
func (m Mortal) Put(ctx context.Context, record *metadata.Record) (out *metadata.Record, err error) {
	err = m.Fault.Around(func() error { out, err = m.Records.Put(ctx, record); return err })
	return out, err
}

// Bind implements metadata.Records.
func (m Mortal) Bind(ctx context.Context, pending *metadata.Record, uid types.UID) (out *metadata.Record, err error) {
	err = m.Fault.Around(func() error { out, err = m.Records.Bind(ctx, pending, uid); return err })
	return out, err
}

// Delete implements metadata.Records.
func (m Mortal) Delete(ctx context.Context, record *metadata.Record) error {
	return m.Fault.Around(func() error { return m.Records.Delete(ctx, record) })
}
