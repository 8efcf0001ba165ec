package template

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// NewKind describes templates to the registry. The promoter is told of versions
// that shall be promoted.
func NewKind(
	provider connections.Provider, promoter *Promoter, typer runtime.ObjectTyper, c clock.PassiveClock,
) registry.Kind[*aggregationv1alpha1.CoderTemplate] {
	b := &backend{provider: provider, promoter: promoter, sources: newSources(maxCached)}
	return registry.Kind[*aggregationv1alpha1.CoderTemplate]{
		Plural: "codertemplates", Singular: "codertemplate", ShortNames: []string{"ctpl"},
		New:      func() *aggregationv1alpha1.CoderTemplate { return &aggregationv1alpha1.CoderTemplate{} },
		NewList:  func() runtime.Object { return &aggregationv1alpha1.CoderTemplateList{} },
		Strategy: strategy{registry.NewStrategy(typer)},
		Table:    table{registry.Ages{Clock: c}},
		Backend:  b,
		Checker:  b,
	}
}
