package apiserver

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/mirror"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectlog"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/partition"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry/template"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry/workspace"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/replication"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/workspacepods"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/agents"
)

// The kinds, by the names under which their logs are known.
const (
	workspacesResource = "coderworkspaces"
	templatesResource  = "codertemplates"
)

// storage is all that stands under the verbs of this replica.
type storage struct {
	board      *partition.Board
	logs       map[string]*objectlog.Log
	replica    *replication.Replica
	mirror     *mirror.Mirror
	agents     *agents.Pool
	pods       *workspacepods.Watcher
	workspaces *workspace.Kind
	templates  *template.Kind
}

// newStorage makes the logs of both kinds, what keeps them equal on all replicas,
// and what keeps them equal to Coder on the one that writes.
func newStorage(config Config, k kube, typer runtime.ObjectTyper) (*storage, error) {
	s := &storage{
		board:  &partition.Board{},
		agents: agents.NewPool(config.DialAgent),
		logs: map[string]*objectlog.Log{
			workspacesResource: objectlog.New(objectlog.Config{}),
			templatesResource:  objectlog.New(objectlog.Config{}),
		},
	}
	var err error
	if s.replica, err = newReplica(config, k, s); err != nil {
		return nil, err
	}
	// The kinds tell the mirror what they changed, and the mirror asks the kinds how
	// to show what it read.
	hint := &hints{}
	s.pods = workspacepods.New(workspacepods.Config{Client: k.client, Clock: config.Clock, Changed: hint.pods})
	s.workspaces = workspace.New(workspace.Config{
		Connections: config.Connections, Records: k.records, Typer: typer, Clock: config.Clock, Hint: hint.workspace,
		Agents: s.agents, Pods: s.pods,
	})
	s.templates = template.New(template.Config{
		Connections: config.Connections, Records: k.records, Typer: typer, Clock: config.Clock, Hint: hint.template,
		ReadSecret: readSecret(k.client), MayReadSecret: mayReadSecret(k.client),
	})
	mirrorMetrics, err := mirror.NewMetrics(config.Metrics)
	if err != nil {
		return nil, fmt.Errorf("registering the metrics of the mirror: %w", err)
	}
	s.mirror, err = mirror.New(mirror.Config{
		Connections: config.Connections, Records: k.records, Board: s.board,
		Workspaces: mirror.Resource[coderd.Workspace]{
			Log: s.logs[workspacesResource], Sequencer: s.replica.Sequencer(workspacesResource), Kind: s.workspaces,
		},
		Templates: mirror.Resource[coderd.Template]{
			Log: s.logs[templatesResource], Sequencer: s.replica.Sequencer(templatesResource), Kind: s.templates,
		},
		Released: (&namespaces{cache: k.informers.Core().V1().Namespaces().Lister()}).Released,
		Members:  s.pods.Serve, Unsettled: s.unsettled,
		Metrics: mirrorMetrics, Timing: config.MirrorTiming, Clock: config.Clock,
	})
	if err != nil {
		return nil, err
	}
	hint.mirror.Store(s.mirror)
	s.replica.Lead(replication.Duties{
		Committers: map[string]objectlog.Committer{
			workspacesResource: s.localCommitter(workspacesResource, s.workspaces),
			templatesResource:  s.localCommitter(templatesResource, s.templates),
		},
		Run: writeWith(k.recordStore, s.mirror, s.pods),
	})
	return s, nil
}

// unsettled reports whether a workspace is read again soon because of its pods.
func (s *storage) unsettled(controlPlane types.NamespacedName, w coderd.Workspace) bool {
	return w.LatestBuild.Status == "running" && len(w.Agents) > 0 && s.pods.Unsettled(controlPlane, w.ID, w.Connected())
}

func (s *storage) localCommitter(resource string, writer objectlog.Writer) objectlog.Committer {
	return objectlog.NewLocalCommitter(s.logs[resource], s.replica.Sequencer(resource), writer)
}

// rest makes the verbs of both kinds, with their subresources.
func (s *storage) rest(
	codecs serializer.CodecFactory, gate *registry.Gate, authorizer authorizer.UnconditionalAuthorizer, config Config,
) (map[string]rest.Storage, error) {
	out := map[string]rest.Storage{}
	add := func(kind registry.Kind, subresources func(*registry.REST) map[string]rest.Storage) error {
		decorate := objectlog.Decorator(objectlog.StoreConfig{
			Log: s.logs[kind.Plural], Committer: s.replica.Committer(kind.Plural), Fresh: s.replica.Fresh(kind.Plural),
		})
		verbs, err := registry.NewREST(kind, codecs, decorate, gate, config.Clock)
		if err != nil {
			return fmt.Errorf("building the storage of %s: %w", kind.Plural, err)
		}
		out[kind.Plural] = verbs
		for name, subresource := range subresources(verbs) {
			out[kind.Plural+"/"+name] = subresource
		}
		return nil
	}
	if err := add(s.workspaces.Registry(), func(verbs *registry.REST) map[string]rest.Storage {
		return s.workspaces.Subresources(verbs, authorizer)
	}); err != nil {
		return nil, err
	}
	return out, add(s.templates.Registry(), func(verbs *registry.REST) map[string]rest.Storage {
		return s.templates.Subresources(verbs)
	})
}

// newWorkspace and newTemplate make what a log holds.
func newWorkspace() objectlog.Object { return &aggregationv1alpha1.CoderWorkspace{} }
func newTemplate() objectlog.Object  { return &aggregationv1alpha1.CoderTemplate{} }
