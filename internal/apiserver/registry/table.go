package registry

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/clock"
)

// table implements rest.TableConvertor.
type table[T Object] struct {
	info *ResourceInfo[T]
	ages Ages
}

// Table returns the converter for kubectl get.
func (b *Base[T]) Table() rest.TableConvertor { return table[T]{b.ResourceInfo, Ages{b.Clock}} }

// ConvertToTable implements rest.TableConvertor. It returns the table of an object or of a list.
func (c table[T]) ConvertToTable(_ context.Context, object, options runtime.Object) (*metav1.Table, error) {
	t := &metav1.Table{}
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		t.ColumnDefinitions = c.info.Columns
	}
	add := func(item runtime.Object) error {
		t.Rows = append(t.Rows, metav1.TableRow{Cells: c.info.Row(item.(T), c.ages), Object: runtime.RawExtension{Object: item}})
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

// MaxMessage limits the message of a condition, in bytes.
const MaxMessage = 8 << 10

// Seconds returns the time in UTC with a precision of one second, as Kubernetes writes it.
func Seconds(t time.Time) metav1.Time {
	return metav1.NewTime(t.UTC().Truncate(time.Second))
}
