package workspace

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// NewKind describes workspaces to the registry.
func NewKind(provider connections.Provider, typer runtime.ObjectTyper, c clock.PassiveClock) registry.Kind[*aggregationv1alpha1.CoderWorkspace] {
	b := &backend{provider: provider, clock: c}
	return registry.Kind[*aggregationv1alpha1.CoderWorkspace]{
		Plural: "coderworkspaces", Singular: "coderworkspace", ShortNames: []string{"cws"},
		New:      func() *aggregationv1alpha1.CoderWorkspace { return &aggregationv1alpha1.CoderWorkspace{} },
		NewList:  func() runtime.Object { return &aggregationv1alpha1.CoderWorkspaceList{} },
		Strategy: strategy{registry.NewStrategy(typer)},
		Table:    table{registry.Ages{Clock: c}},
		Backend:  b,
		Checker:  b,
	}
}
