package metadata_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata/metadatatest"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// place is one kind of cluster that records are kept in, and what a person can do
// there by hand.
type place struct {
	t       *testing.T
	records metadata.Records
	cluster metadata.Cluster
	// team and other are namespaces.
	team, other string
	// checks says that the cluster refuses what the definition does not allow.
	checks bool
	// replica gives the records of another replica.
	replica func() metadata.Records
}

func (p *place) controlPlane() types.NamespacedName {
	return types.NamespacedName{Namespace: p.team, Name: "dev"}
}

// resource reads the resource of a record.
func (p *place) resource(record *metadata.Record) *metadata.Resource {
	p.t.Helper()
	key, err := metadata.ResourceKey(record)
	must(p.t, err)
	resource, err := p.cluster.Get(p.t.Context(), key)
	must(p.t, err)
	return resource
}

// edit changes the record of an object by hand.
func (p *place) edit(record *metadata.Record, change func(*metadata.Record)) {
	p.t.Helper()
	resource := p.resource(record)
	edited, err := resource.Decode()
	must(p.t, err)
	change(edited)
	encoded, err := metadata.Encode(edited)
	must(p.t, err)
	resource.Spec = encoded.Spec
	must(p.t, p.cluster.Update(p.t.Context(), resource))
}

// spoil writes into the resource of a record what cannot be read.
func (p *place) spoil(record *metadata.Record) {
	p.t.Helper()
	resource := p.resource(record)
	resource.Spec = json.RawMessage(`{"kind":"CoderWorkspace","name":["no name"]}`)
	must(p.t, p.cluster.Update(p.t.Context(), resource))
}

// remove removes a resource by hand.
func (p *place) remove(record *metadata.Record) {
	p.t.Helper()
	resource := p.resource(record)
	resource.ResourceVersion = ""
	must(p.t, p.cluster.Delete(p.t.Context(), resource))
}

var controlPlaneUID = types.UID("11111111-0000-0000-0000-000000000000")

func uidOf(controlPlane types.NamespacedName) (types.UID, bool) {
	return controlPlaneUID, controlPlane.Name == "dev"
}

// inMemory is what metadatatest gives.
func inMemory(t *testing.T) *place {
	records := metadatatest.New(t)
	return &place{
		t: t, records: records, cluster: records.Cluster(), team: "team", other: "other",
		replica: func() metadata.Records { return records.Replica() },
	}
}

// overCluster keeps records in a cluster that others write to as well.
func overCluster(t *testing.T, cluster metadata.Cluster, team, other string) *place {
	replica := func() metadata.Records {
		store := metadata.NewStore(metadata.Config{Cluster: cluster, ControlPlaneUID: uidOf})
		run(t, store)
		return store
	}
	return &place{t: t, records: replica(), cluster: cluster, team: team, other: other, replica: replica}
}

// run runs a store until the test ends, and waits until it is ready.
func run(t *testing.T, store *metadata.Store) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- store.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	polltest.Eventually(t, "reading the records", store.Ready)
}

// overAPIServer gives places on a real kube-apiserver, each with namespaces of its
// own.
func overAPIServer(t *testing.T) func(t *testing.T) *place {
	t.Helper()
	config := kubetest.Shared(t, filepath.Join("..", "..", "..", "config", "crd", "bases", "internal.coder.com_coderobjectmetadata.yaml"))
	n := 0
	return func(t *testing.T) *place {
		n++
		team, other := kubetest.Namespace(t, config), kubetest.Namespace(t, config)
		// Watching some namespaces and watching all take turns.
		var namespaces []string
		if n%2 == 0 {
			namespaces = []string{team, other}
		}
		cluster, err := metadata.NewCluster(config, namespaces)
		must(t, err)
		p := overCluster(t, cluster, team, other)
		p.checks = true
		return p
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
