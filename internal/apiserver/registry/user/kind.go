package user

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/acting"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectname"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

const (
	// Plural is the name of the resource.
	Plural = "coderusers"
	// kindName is in the records of users.
	kindName = "CoderUser"
)

// Config is what users are served with.
type Config struct {
	Connections connections.Provider
	Records     metadata.Records
	Typer       runtime.ObjectTyper
	Clock       clock.PassiveClock
	// Actors decides as whom callers act. Nil acts with the operator's account.
	Actors *acting.Actors
	// Hint notifies the mirror of a user that changes. It may be nil.
	Hint func(controlPlane types.NamespacedName, id uuid.UUID)
	// ReadSecret reads one key of a Secret. Its errors are API statuses.
	ReadSecret func(ctx context.Context, namespace, name, key string) (string, error)
	// MayReadSecret is nil if the caller may get the Secret. Its errors are API statuses.
	// It may be nil itself: then nobody is asked.
	MayReadSecret func(ctx context.Context, who user.Info, namespace, secret string) error
	// MembersAge is how old a list of members is at least when it is read again. 0 means
	// 50s.
	MembersAge time.Duration
}

// Kind is all that users are. It is safe for concurrent use.
type Kind struct {
	config  Config
	members *members
}

var (
	_ records.Writer   = (*Kind)(nil)
	_ registry.Checker = (*Kind)(nil)
)

// New makes the kind.
func New(config Config) *Kind {
	if config.MembersAge == 0 {
		config.MembersAge = 50 * time.Second
	}
	return &Kind{config: config, members: newMembers(config.Clock, config.MembersAge)}
}

// Registry describes users to the registry.
func (k *Kind) Registry() registry.Kind {
	return registry.Kind{
		Plural: Plural, Singular: "coderuser", ShortNames: []string{"cusr"},
		New:        func() runtime.Object { return &aggregationv1alpha1.CoderUser{} },
		NewList:    func() runtime.Object { return &aggregationv1alpha1.CoderUserList{} },
		Strategy:   strategy{Strategy: registry.NewStrategy(k.config.Typer), mayReadSecret: k.config.MayReadSecret},
		Table:      table{registry.Ages{Clock: k.config.Clock}},
		Checker:    k,
		Prefix:     k.prefix,
		CheckName:  func(name string) error { _, err := objectname.ParseUser(name); return err },
		Attributes: attributes,
		Indexers:   &cache.Indexers{},
	}
}

// prefix is the part of an object's name that names its control plane.
func (k *Kind) prefix(name string) string {
	parsed, err := objectname.ParseUser(objectname.WithoutID(name))
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

// WithSync implements mirror.Kind.
func (k *Kind) WithSync(previous records.Object, reachable bool, since time.Time, message string) records.Object {
	was, ok := previous.(*aggregationv1alpha1.CoderUser)
	if !ok || was == nil {
		return nil
	}
	c := meta.FindStatusCondition(was.Status.Conditions, aggregationv1alpha1.ConditionSynced)
	unreachable := c != nil && c.Reason == aggregationv1alpha1.ReasonCoderUnreachable
	if reachable != unreachable {
		return nil
	}
	now := verdict{reason: aggregationv1alpha1.ReasonCoderUnreachable, message: "Coder cannot be asked, this is what it last reported: " + message}
	if reachable {
		now = synced(nil, nil)
	}
	out := was.DeepCopy()
	changed := now.condition(aggregationv1alpha1.ConditionSynced, was.Status.ObservedGeneration, since)
	if c != nil && c.Status == changed.Status {
		changed.LastTransitionTime = c.LastTransitionTime
	}
	meta.SetStatusCondition(&out.Status.Conditions, changed)
	return out
}

// fieldLabels are the fields that a selector may name.
func fieldLabels() map[string]func(*aggregationv1alpha1.CoderUser) string {
	type object = *aggregationv1alpha1.CoderUser
	return map[string]func(object) string{
		"metadata.name":      func(u object) string { return u.Name },
		"metadata.namespace": func(u object) string { return u.Namespace },
		"spec.email":         func(u object) string { return u.Spec.Email },
		"spec.loginType":     func(u object) string { return u.Spec.LoginType },
		"status.username":    func(u object) string { return u.Status.Username },
		"status.state":       func(u object) string { return u.Status.State },
	}
}

// attributes are what selectors match.
func attributes(obj runtime.Object) (labels.Set, fields.Set, error) {
	u, ok := obj.(*aggregationv1alpha1.CoderUser)
	if !ok {
		return nil, nil, errNotUser(obj)
	}
	selectable := fields.Set{}
	for label, value := range fieldLabels() {
		selectable[label] = value(u)
	}
	return labels.Set(u.Labels), selectable, nil
}

func errNotUser(obj any) error { return fmt.Errorf("a CoderUser is expected here, not %T", obj) }

// AddToScheme registers the fields that selectors of users may name.
func AddToScheme(s *runtime.Scheme) error {
	known := fieldLabels()
	return s.AddFieldLabelConversionFunc(aggregationv1alpha1.GroupVersion.WithKind(kindName), func(label, value string) (string, string, error) {
		if _, ok := known[label]; !ok {
			return "", "", fmt.Errorf("a field selector of users may name %s, and not %q",
				strings.Join(slices.Sorted(maps.Keys(known)), ", "), label)
		}
		return label, value, nil
	})
}
