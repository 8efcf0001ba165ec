package workspace

import (
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/clock"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/acting"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectname"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/workspacepods"
	"github.com/coder-k8s/coder-k8s/internal/coderd/agents"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
	"github.com/coder-k8s/coder-k8s/internal/coderd/workspacetokens"
)

// Plural is the name of the resource.
const Plural = "coderworkspaces"

// Config configures the kind.
type Config struct {
	Connections connections.Provider
	Records     metadata.Records
	Typer       runtime.ObjectTyper
	Clock       clock.PassiveClock
	// Actors decides as whom callers act. If nil, the operator's account is used.
	Actors *acting.Actors
	// Agents are the connections to the agents of workspaces.
	Agents *agents.Pool
	// Tokens manages the tokens that are restricted to one workspace.
	Tokens *workspacetokens.Manager
	// Pods reports problems of pods. If nil, no problems are reported.
	Pods Pods
	// Hint triggers a read of a workspace that changes. It may be nil.
	Hint func(controlPlane types.NamespacedName, id uuid.UUID)
}

// Pods reports problems of the pods of workspaces.
type Pods interface {
	// Problem returns the problem of the pods of a workspace, or nil. builtAt is when the workspace
	// was built, or zero if it does not run. shown is the problem that the workspace shows since
	// its last build. It is returned by a replica that does not watch the pods.
	Problem(controlPlane types.NamespacedName, id uuid.UUID, builtAt time.Time, shown *workspacepods.Problem) *workspacepods.Problem
}

// Kind implements the behavior of workspaces.
type Kind struct {
	config Config
	values *registry.BuildCache[map[string]string]
	causes *registry.Causes
	// labelSets caches the labels of each control plane by its types.NamespacedName.
	labelSets sync.Map
}

var (
	_ records.Writer   = (*Kind)(nil)
	_ registry.Checker = (*Kind)(nil)
)

// New returns the kind.
func New(config Config) *Kind {
	return &Kind{config: config, values: registry.NewBuildCache[map[string]string](), causes: registry.NewCauses(config.Clock)}
}

// Registry returns the description of workspaces for the registry.
func (k *Kind) Registry() registry.Kind {
	return registry.Kind{
		Plural: Plural, Singular: "coderworkspace", ShortNames: []string{"cws"},
		New:         func() runtime.Object { return &aggregationv1alpha1.CoderWorkspace{} },
		NewList:     func() runtime.Object { return &aggregationv1alpha1.CoderWorkspaceList{} },
		Strategy:    k.Strategy(),
		Table:       k.Table(),
		Checker:     k,
		Prefix:      k.Prefix,
		CheckName:   func(name string) error { _, err := objectname.ParseWorkspace(name); return err },
		Attributes:  Attributes,
		Indexers:    indexers(),
		IndexFields: indexed(),
	}
}

// Strategy returns the strategy of the Store.
func (k *Kind) Strategy() registry.FullStrategy {
	return strategy{registry.NewStrategy(k.config.Typer)}
}

// Table returns the converter for the columns of kubectl get.
func (k *Kind) Table() rest.TableConvertor { return table{registry.Ages{Clock: k.config.Clock}} }

// Prefix returns the part of an object's name that identifies its control plane.
func (k *Kind) Prefix(name string) string {
	parsed, err := objectname.ParseWorkspace(objectname.WithoutID(name))
	if err != nil {
		return ""
	}
	return parsed.Prefix
}

func (k *Kind) hint(controlPlane types.NamespacedName, id uuid.UUID) {
	if k.config.Hint != nil {
		k.config.Hint(controlPlane, id)
	}
}
