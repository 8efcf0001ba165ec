package records

import (
	"hash/maphash"
	"maps"
	"reflect"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
)

const (
	// sharedValues is the number of values that a sharer remembers. An object has about fifty texts
	// that many other objects also have.
	sharedValues = 1 << 12
	// sharedLength is the length in bytes up to which a text is shared.
	sharedLength = 256
)

// sharer replaces equal texts and labels of decoded objects by one copy. The decoder allocates each
// text, although ten thousand workspaces have the same templates, states and conditions.
//
// It remembers one value for each hash. A new value replaces the previous one, so the size is fixed.
// It is safe for concurrent use.
type sharer struct {
	seed          maphash.Seed
	texts         [sharedValues]atomic.Pointer[string]
	labels        [sharedValues]atomic.Pointer[map[string]string]
	managedFields []metav1.ManagedFieldsEntry
}

func newSharer() *sharer {
	return &sharer{seed: maphash.MakeSeed(), managedFields: metadata.ManagedFields()}
}

// text returns a text that equals the given one.
func (s *sharer) text(text string) string {
	if text == "" || len(text) > sharedLength {
		return text
	}
	slot := &s.texts[maphash.String(s.seed, text)%sharedValues]
	if known := slot.Load(); known != nil && *known == text {
		return *known
	}
	slot.Store(&text)
	return text
}

// object shares the values of an object that nobody else has yet. From then on, the object must not
// be modified.
func (s *sharer) object(object Object) {
	s.value(reflect.ValueOf(object).Elem())
	if equality.Semantic.DeepEqual(object.GetManagedFields(), s.managedFields) {
		object.SetManagedFields(s.managedFields)
	}
	if labels := object.GetLabels(); len(labels) > 0 {
		object.SetLabels(s.sharedLabels(labels))
	}
}

// value shares the texts of a value. It omits maps: those of templates contain their files.
func (s *sharer) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(s.text(v.String()))
	case reflect.Pointer:
		if !v.IsNil() {
			s.value(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			// This excludes the fields of time.Time.
			if field := v.Field(i); field.CanSet() {
				s.value(field)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			s.slice(v)
		}
	}
}

// slice also drops the reserve with which the decoder appends.
func (s *sharer) slice(v reflect.Value) {
	if v.Cap() > v.Len() && v.Len() > 0 {
		exact := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(exact, v)
		v.Set(exact)
	}
	for i := range v.Len() {
		s.value(v.Index(i))
	}
}

// sharedLabels returns labels that equal the given ones.
func (s *sharer) sharedLabels(labels map[string]string) map[string]string {
	// The sum does not depend on the order.
	var hash uint64
	for key, value := range labels {
		hash += maphash.String(s.seed, key) ^ 31*maphash.String(s.seed, value)
	}
	slot := &s.labels[hash%sharedValues]
	if known := slot.Load(); known != nil && maps.Equal(*known, labels) {
		return *known
	}
	own := make(map[string]string, len(labels))
	for key, value := range labels {
		own[s.text(key)] = s.text(value)
	}
	slot.Store(&own)
	return own
}
