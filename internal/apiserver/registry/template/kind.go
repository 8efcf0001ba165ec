package template

import (
	"context"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/acting"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectname"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	frame "github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

const (
	// Plural is the name of the resource.
	Plural = "codertemplates"
	// kindName is the kind in the records of templates.
	kindName = "CoderTemplate"
)

// Config configures a Kind.
type Config struct {
	Connections connections.Provider
	Records     metadata.Records
	Typer       runtime.ObjectTyper
	Clock       clock.PassiveClock
	// Actors determines the Coder users that callers act as. If nil, they act as the operator.
	Actors *acting.Actors
	// Hint notifies the mirror that a template changes. It may be nil.
	Hint func(controlPlane types.NamespacedName, id uuid.UUID)
	// ReadSecret reads one key of a Secret. Its errors are API statuses. NotFound means that the
	// Secret or the key does not exist.
	ReadSecret func(ctx context.Context, namespace, name, key string) (string, error)
	// MayReadSecret returns nil if the user has permission to get the Secret. Its errors are API
	// statuses, Forbidden if the user has no permission. If MayReadSecret itself is nil, no
	// permission is checked.
	MayReadSecret func(ctx context.Context, who user.Info, namespace, secret string) error
}

// Kind implements CoderTemplate. It is safe for concurrent use.
type Kind struct {
	config    Config
	book      *book
	rotations *rotations
	unpacking *unpacking
	causes    *frame.Causes
}

var (
	_ records.Writer = (*Kind)(nil)
	_ frame.Checker  = (*Kind)(nil)
)

// New returns a Kind.
func New(config Config) *Kind {
	return &Kind{config: config, book: newBook(config.Clock), rotations: newRotations(config.Clock), unpacking: newUnpacking(),
		causes: frame.NewCauses(config.Clock)}
}

// Registry returns the description of templates for the registry.
func (k *Kind) Registry() frame.Kind {
	return frame.Kind{
		Plural: Plural, Singular: "codertemplate", ShortNames: []string{"ctpl"},
		New:        func() runtime.Object { return &aggregationv1alpha1.CoderTemplate{} },
		NewList:    func() runtime.Object { return &aggregationv1alpha1.CoderTemplateList{} },
		Strategy:   k.Strategy(),
		Table:      k.Table(),
		Checker:    k,
		Prefix:     k.Prefix,
		CheckName:  func(name string) error { _, err := objectname.ParseTemplate(name); return err },
		Attributes: Attributes,
		Indexers:   &cache.Indexers{},
	}
}

// Strategy returns the strategy of the Store.
func (k *Kind) Strategy() frame.FullStrategy {
	return strategy{Strategy: frame.NewStrategy(k.config.Typer), mayReadSecret: k.config.MayReadSecret}
}

// Table returns the converter for kubectl get.
func (k *Kind) Table() rest.TableConvertor { return table{frame.Ages{Clock: k.config.Clock}} }

// Prefix returns the part of an object's name that identifies its control plane.
func (k *Kind) Prefix(name string) string {
	parsed, err := objectname.ParseTemplate(objectname.WithoutID(name))
	if err != nil {
		return ""
	}
	return parsed.Prefix
}

// WithSync implements mirror.Kind.
func (k *Kind) WithSync(previous records.Object, reachable bool, since time.Time, message string) records.Object {
	old, ok := previous.(*aggregationv1alpha1.CoderTemplate)
	if !ok || old == nil {
		return nil
	}
	if changed := withSync(old, reachable, since, message); changed != nil {
		return changed
	}
	return nil
}

func (k *Kind) hint(controlPlane types.NamespacedName, id uuid.UUID) {
	if k.config.Hint != nil {
		k.config.Hint(controlPlane, id)
	}
}

// Attributes returns the labels and fields that selectors match.
func Attributes(obj runtime.Object) (labels.Set, fields.Set, error) {
	tmpl, ok := obj.(*aggregationv1alpha1.CoderTemplate)
	if !ok {
		return nil, nil, errNotTemplate(obj)
	}
	selectable := fields.Set{}
	for label, value := range fieldLabels() {
		selectable[label] = value(tmpl)
	}
	return labels.Set(tmpl.Labels), selectable, nil
}

// AddToScheme registers conversions for templates: the labels of field selectors, and the query
// parameters of the subresources.
func AddToScheme(s *runtime.Scheme) error {
	if err := s.AddFieldLabelConversionFunc(aggregationv1alpha1.GroupVersion.WithKind(kindName), FieldLabel); err != nil {
		return err
	}
	return addQueriesToScheme(s)
}

var _ Store = (*registry.Store)(nil)
