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
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectlog"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectname"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/workspacepods"
	"github.com/coder-k8s/coder-k8s/internal/coderd/agents"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// Plural is the name of the resource.
const Plural = "coderworkspaces"

// Config is what workspaces are served with.
type Config struct {
	Connections connections.Provider
	Records     metadata.Records
	Typer       runtime.ObjectTyper
	Clock       clock.PassiveClock
	// Agents are the connections to the agents of workspaces.
	Agents *agents.Pool
	// Pods knows the problems of pods. Nil knows none.
	Pods Pods
	// Hint tells the mirror that a workspace changes. It may be nil.
	Hint func(controlPlane types.NamespacedName, id uuid.UUID)
}

// Pods knows the problems of pods of workspaces.
type Pods interface {
	// Problem returns the problem of the pods of a workspace, or nil. builtAt is when it
	// was built, and zero unless it runs.
	Problem(controlPlane types.NamespacedName, id uuid.UUID, builtAt time.Time) *workspacepods.Problem
}

// Kind is all that workspaces are.
type Kind struct {
	config Config
	values *valueCache
	// labelSets are the labels of each control plane, by its types.NamespacedName.
	labelSets sync.Map
}

var (
	_ objectlog.Writer = (*Kind)(nil)
	_ registry.Checker = (*Kind)(nil)
)

// New makes the kind.
func New(config Config) *Kind {
	return &Kind{config: config, values: newValueCache()}
}

// Registry describes workspaces to the registry.
func (k *Kind) Registry() registry.Kind {
	return registry.Kind{
		Plural: Plural, Singular: "coderworkspace", ShortNames: []string{"cws"},
		New:         func() runtime.Object { return &aggregationv1alpha1.CoderWorkspace{} },
		NewList:     func() runtime.Object { return &aggregationv1alpha1.CoderWorkspaceList{} },
		Strategy:    k.Strategy(),
		Table:       k.Table(),
		Checker:     k,
		Prefix:      k.Prefix,
		Attributes:  Attributes,
		Indexers:    indexers(),
		IndexFields: indexed(),
	}
}

// Strategy is that of the Store.
func (k *Kind) Strategy() registry.FullStrategy {
	return strategy{registry.NewStrategy(k.config.Typer)}
}

// Table makes what kubectl get shows.
func (k *Kind) Table() rest.TableConvertor { return table{registry.Ages{Clock: k.config.Clock}} }

// Prefix gives the part of an object's name that tells its control plane.
func (k *Kind) Prefix(name string) string {
	parsed, err := objectname.ParseWorkspace(name)
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
