package apiserver

import (
	"cmp"
	"fmt"
	"maps"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/mirror"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry/template"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry/user"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry/workspace"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/syncstatus"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/workspacepods"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/agents"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
	"github.com/coder-k8s/coder-k8s/internal/coderd/usertokens"
)

// storage is the state behind the REST storages of this replica.
type storage struct {
	connections connections.Provider
	namespaces  *namespaces
	board       *syncstatus.Board
	states      *states
	leader      *leader
	stores      stores
	kept        *records.Keeper
	hints       *mirror.Hints
	mirror      *mirror.Mirror
	agents      *agents.Pool
	pods        *workspacepods.Watcher
	events      *eventRecorder
	sessions    *usertokens.Sessions
	actors      *impersonation.Actors
	tokens      *usertokens.WorkspaceTokens
	workspaces  *workspace.Kind
	templates   *template.Kind
	users       *user.Kind
}

var (
	_ mirror.Adopter[coderd.User]      = (*user.Kind)(nil)
	_ mirror.Adopter[coderd.Workspace] = (*workspace.Kind)(nil)
)

// newStorage returns the stores of all kinds, the components that apply writes to Coder, and the
// mirror that keeps the records equal to Coder while this replica is the leader. Each part is created
// after the parts that it uses: the stores, the Lease and the hints, then the states, the pods and the
// kinds, then the mirror.
func newStorage(config Config, k kube, typer runtime.ObjectTyper, authorizer authorizer.UnconditionalAuthorizer) (*storage, error) {
	workspaces := records.NewStore(records.Workspaces(k.workspaces, config.Identity, config.PodNamespace, config.Clock))
	templates := records.NewStore(records.Templates(k.templates, k.sources, config.Identity, config.PodNamespace, config.Clock))
	users := records.NewStore(records.Users(k.users, config.Identity, config.PodNamespace, config.Clock))
	s := &storage{
		connections: config.Connections,
		sessions:    usertokens.NewSessions(config.Connections, config.Identity, config.Clock),
		tokens:      usertokens.NewWorkspaceTokens(config.Connections, config.Clock),
		namespaces:  &namespaces{cache: k.informers.Core().V1().Namespaces().Lister(), client: k.client},
		board:       &syncstatus.Board{}, hints: &mirror.Hints{}, agents: agents.NewPool(config.DialAgent),
		leader: newLeader(k.client, config.PodNamespace, config.Identity, config.MirrorLease),
		stores: stores{workspace.Plural: workspaces, template.Plural: templates, user.Plural: users},
	}
	s.kept = records.NewKeeper(workspaces, templates, users)
	s.states = newStates(s.board, k.dynamic, config.Connections, s.leader, s.stores, config.Clock.Now())
	s.pods = workspacepods.New(workspacepods.Config{Client: k.client, Clock: config.Clock, Read: s.podsRead, Changed: s.hints.Pods})
	s.events = newEventRecorder(eventConfig{Client: k.client, Clock: config.Clock, Identity: config.Identity})
	workspaces.Table.Observe(s.events.Changed)
	templates.Table.Observe(s.events.Changed)
	identityMetrics, err := impersonation.NewMetrics(config.Metrics)
	if err != nil {
		return nil, fmt.Errorf("registering the metrics of identity rules: %w", err)
	}
	s.actors = impersonation.New(impersonation.Config{
		Authorizer: authorizer, Sessions: s.sessions, Clock: config.Clock, Board: s.board, Metrics: identityMetrics,
	})
	kind := registry.Config{
		Connections: config.Connections, Records: s.kept, Typer: typer, Clock: config.Clock, Actors: s.actors,
		Hints: s.hints, Workspaces: s.workspacesOf,
	}
	secrets := registry.Secrets{Read: readSecret(k.client), MayRead: mayReadSecret(k.client)}
	s.workspaces = workspace.New(workspace.Config{Config: kind, Agents: s.agents, Tokens: s.tokens, Pods: s.pods})
	s.templates = template.New(template.Config{Config: kind, Secrets: secrets, Tests: templateTests{k.dynamic}, Authorizer: authorizer})
	s.users = user.New(user.Config{Config: kind, Secrets: secrets, MembersAge: config.MirrorTiming.Users})
	// The kinds read and write records, and the stores call them to apply the writes of clients.
	workspaces.WriteWith(s.workspaces)
	templates.WriteWith(s.templates)
	users.WriteWith(s.users)
	mirrorMetrics, err := mirror.NewMetrics(config.Metrics)
	if err != nil {
		return nil, fmt.Errorf("registering the metrics of the mirror: %w", err)
	}
	s.mirror = mirror.New(mirror.Config{
		Connections: config.Connections, Records: s.kept, Board: s.board, Hints: s.hints, Held: s.leader.held,
		Workspaces: mirror.Resource[coderd.Workspace]{Store: workspaces, Kind: s.workspaces},
		Templates:  mirror.Resource[coderd.Template]{Store: templates, Kind: s.templates},
		Users:      mirror.Resource[coderd.User]{Store: users, Kind: s.users},
		Released:   s.namespaces.Released,
		Members:    s.pods.Serve, Unsettled: s.unsettled, Gone: s.tokens.Gone, Built: s.templates.Built,
		Metrics: mirrorMetrics, Timing: cmp.Or(config.MirrorTiming, mirror.DefaultTiming()), Clock: config.Clock,
	})
	return s, nil
}

// workspacesOf returns the workspaces of a control plane as this replica knows them.
func (s *storage) workspacesOf(controlPlane types.NamespacedName) []*aggregationv1alpha1.CoderWorkspace {
	var all []*aggregationv1alpha1.CoderWorkspace
	for _, entry := range s.stores[workspace.Plural].Table.Of(controlPlane) {
		if ws, ok := entry.Object.(*aggregationv1alpha1.CoderWorkspace); ok {
			all = append(all, ws)
		}
	}
	return all
}

// unsettled reports whether a workspace must be read again soon because of its pods.
func (s *storage) unsettled(controlPlane types.NamespacedName, w coderd.Workspace) bool {
	return w.LatestBuild.Status == "running" && len(w.Agents) > 0 && s.pods.Unsettled(controlPlane, w.ID, w.Connected())
}

// podsRead triggers reads of the workspaces that show a problem of their pods, because the problem
// may have ended while no replica watched the pods.
func (s *storage) podsRead(controlPlane types.NamespacedName) {
	for _, ws := range s.workspacesOf(controlPlane) {
		if id, err := uuid.Parse(ws.Status.ID); err == nil &&
			meta.FindStatusCondition(ws.Status.Conditions, aggregationv1alpha1.ConditionPodsHealthy) != nil {
			s.hints.Pods(controlPlane, id)
		}
	}
}

// rest returns the REST storages of all kinds and their subresources.
func (s *storage) rest(
	codecs serializer.CodecFactory, gate *registry.Gate, authorizer authorizer.UnconditionalAuthorizer,
) (map[string]rest.Storage, error) {
	out := map[string]rest.Storage{impersonation.SelfReviewPlural: impersonation.NewSelfReview(s.connections, s.actors)}
	for _, kind := range []registry.Kind{s.workspaces.Registry(), s.templates.Registry(), s.users.Registry()} {
		store := s.stores[kind.Plural]
		verbs, err := registry.NewREST(kind, codecs, records.Decorator(store), gate, store)
		if err != nil {
			return nil, fmt.Errorf("building the storage of %s: %w", kind.Plural, err)
		}
		out[kind.Plural] = verbs
		var subresources map[string]rest.Storage
		switch kind.Plural {
		case workspace.Plural:
			subresources = s.workspaces.Subresources(verbs, authorizer)
		case template.Plural:
			subresources = s.templates.Subresources(verbs)
			versions, err := s.templates.Versions(codecs, gate, verbs, store)
			if err != nil {
				return nil, fmt.Errorf("building the storage of %s: %w", template.VersionPlural, err)
			}
			maps.Copy(out, versions)
		}
		for name, subresource := range subresources {
			out[kind.Plural+"/"+name] = subresource
		}
	}
	return out, nil
}
