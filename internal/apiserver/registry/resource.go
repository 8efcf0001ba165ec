package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/coderfault"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
)

// The fields of every kind that field selectors support.
const (
	fieldName      = "metadata.name"
	fieldNamespace = "metadata.namespace"
)

// Object is an object of the aggregated API.
type Object interface {
	comparable
	records.Object
}

// ResourceInfo describes the resource of a kind: its names, and how its objects are selected, shown
// and named in errors.
type ResourceInfo[T Object] struct {
	Plural, Singular, Kind string
	ShortNames             []string
	New, NewList           func() runtime.Object
	// InCoder is the resource type of Coder's permissions.
	InCoder string
	// ParseName splits the name of an object into its parts. The error says why the name is not valid.
	ParseName func(name string) (metadata.Name, error)
	// Fields are the fields that field selectors support, besides the name and the namespace. Those
	// in Indexed have an index in the cache.
	Fields  map[string]func(T) string
	Indexed []string
	// Folded are the fields of which Coder ignores the case. Field selectors ignore it too.
	Folded []string
	// Columns are those of kubectl get. Those with priority 1 are in the wide output only.
	Columns []metav1.TableColumnDefinition
	Row     func(obj T, ages Ages) []any
	// Conditions returns the conditions of an object, and Spec its spec.
	Conditions func(T) *[]metav1.Condition
	Spec       func(T) any
	// CoderFields maps the fields of Coder's API, as an error names them, to fields of the object.
	CoderFields func(err error) map[string]*field.Path
}

// GroupResource returns the resource, for errors.
func (r *ResourceInfo[T]) GroupResource() schema.GroupResource {
	return aggregationv1alpha1.Resource(r.Plural)
}

// GroupKind returns the kind, for errors.
func (r *ResourceInfo[T]) GroupKind() schema.GroupKind {
	return aggregationv1alpha1.GroupVersion.WithKind(r.Kind).GroupKind()
}

// Cast returns an object with its type.
func (r *ResourceInfo[T]) Cast(obj any) (T, error) {
	typed, ok := obj.(T)
	if !ok {
		return typed, apierrors.NewInternalError(fmt.Errorf("a %s is expected here, not %T", r.Kind, obj))
	}
	return typed, nil
}

// Prefix returns the part of an object's name that identifies its control plane, or "" if the name
// is not valid.
func (r *ResourceInfo[T]) Prefix(name string) string {
	parsed, _ := r.ParseName(metadata.NameWithoutID(name))
	return parsed.Prefix
}

// CheckName returns why a name is not valid for an object of this kind.
func (r *ResourceInfo[T]) CheckName(name string) error {
	_, err := r.ParseName(name)
	return err
}

// Attributes returns the labels and fields that selectors match.
func (r *ResourceInfo[T]) Attributes(obj runtime.Object) (labels.Set, fields.Set, error) {
	typed, err := r.Cast(obj)
	if err != nil {
		return nil, nil, err
	}
	selectable := fields.Set{fieldName: typed.GetName(), fieldNamespace: typed.GetNamespace()}
	for label, value := range r.Fields {
		selectable[label] = r.fold(label, value(typed))
	}
	return typed.GetLabels(), selectable, nil
}

// Indexers index the objects in the cache by the fields in Indexed.
func (r *ResourceInfo[T]) Indexers() *cache.Indexers {
	out := cache.Indexers{}
	for _, label := range r.Indexed {
		value := r.Fields[label]
		out[storage.FieldIndex(label)] = func(obj any) ([]string, error) {
			typed, err := r.Cast(obj)
			if err != nil {
				return nil, err
			}
			return []string{r.fold(label, value(typed))}, nil
		}
	}
	return &out
}

// FieldLabel returns an error if field selectors do not support the field.
func (r *ResourceInfo[T]) FieldLabel(label, value string) (newLabel, newValue string, err error) {
	supported := append(slices.Collect(maps.Keys(r.Fields)), fieldName, fieldNamespace)
	if !slices.Contains(supported, label) {
		slices.Sort(supported)
		return "", "", fmt.Errorf("field selectors of %s support %s, not %q", strings.TrimPrefix(r.Plural, "coder"),
			strings.Join(supported, ", "), label)
	}
	return label, r.fold(label, value), nil
}

// fold returns the value of a field in the form that selectors compare.
func (r *ResourceInfo[T]) fold(label, value string) string {
	if slices.Contains(r.Folded, label) {
		return strings.ToLower(value)
	}
	return value
}

// AddToScheme registers the fields that field selectors support.
func (r *ResourceInfo[T]) AddToScheme(s *runtime.Scheme) error {
	return s.AddFieldLabelConversionFunc(aggregationv1alpha1.GroupVersion.WithKind(r.Kind), r.FieldLabel)
}

// Invalid returns 422 with the problems, or nil if there are none.
func (r *ResourceInfo[T]) Invalid(name string, problems ...*field.Error) error {
	if len(problems) == 0 {
		return nil
	}
	return apierrors.NewInvalid(r.GroupKind(), name, problems)
}

// Fault converts an error about an object to an API status.
func (r *ResourceInfo[T]) Fault(name string, err error) error {
	return r.fault(name, err, coderfault.Subject.Status)
}

// CreateFault is like Fault, for an error of the creation itself: the object may have been created
// nevertheless.
func (r *ResourceInfo[T]) CreateFault(name string, err error) error {
	return r.fault(name, err, coderfault.Subject.Created)
}

func (r *ResourceInfo[T]) fault(name string, err error, convert func(coderfault.Subject, error) error) error {
	var problem *field.Error
	if errors.As(err, &problem) {
		return r.Invalid(name, problem)
	}
	return convert(coderfault.Subject{Kind: r.GroupKind(), Resource: r.GroupResource(), Name: name, Fields: r.CoderFields(err)}, err)
}

// ConvertToTable implements rest.TableConvertor. It returns the table of an object or of a list.
func (b *Base[T]) ConvertToTable(_ context.Context, object, options runtime.Object) (*metav1.Table, error) {
	t := &metav1.Table{}
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		t.ColumnDefinitions = b.Columns
	}
	add := func(item runtime.Object) error {
		t.Rows = append(t.Rows, metav1.TableRow{Cells: b.Row(item.(T), Ages{b.Clock}), Object: runtime.RawExtension{Object: item}})
		return nil
	}
	if list, err := meta.ListAccessor(object); err == nil && meta.IsListType(object) {
		t.ResourceVersion, t.Continue, t.RemainingItemCount = list.GetResourceVersion(), list.GetContinue(), list.GetRemainingItemCount()
		return t, meta.EachListItem(object, add)
	}
	if item, err := meta.CommonAccessor(object); err == nil {
		t.ResourceVersion = item.GetResourceVersion()
	}
	return t, add(object)
}

// Ages formats durations as kubectl does.
type Ages struct {
	Clock clock.PassiveClock
}

// Since returns the time that has passed since t.
func (a Ages) Since(t *metav1.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(a.Clock.Since(t.Time))
}

// Until returns the time that remains until t.
func (a Ages) Until(t *metav1.Time) string {
	if t.IsZero() {
		return "-"
	}
	return duration.HumanDuration(max(t.Sub(a.Clock.Now()), 0))
}

// Millis returns the duration of a field in milliseconds.
func Millis(field *int64) *time.Duration {
	if field == nil {
		return nil
	}
	return ptr.To(time.Duration(*field) * time.Millisecond)
}

// Seconds returns the time in UTC with a precision of one second, as Kubernetes writes it.
func Seconds(t time.Time) metav1.Time {
	t = t.UTC().Truncate(time.Second)
	if t.Year() < 1 || t.Year() > 9999 {
		return metav1.Time{}
	}
	return metav1.NewTime(t)
}
