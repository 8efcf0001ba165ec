package registry

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

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
