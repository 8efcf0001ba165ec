package metadata

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// FuzzRead reads arbitrary text. It must not panic. A record that can be read must be the same
// after it is written and read again.
func FuzzRead(f *testing.F) {
	for _, kept := range []string{
		"", "null", "{}", "[]", `{"labels":7}`, `{"labels":{"a":"b"}}`, `{"intent":[1]}`, `{"intent":{"a":{"a":1e400}}}`,
		`{"intent":{"a":"\ud800<>","a":2}}`, `{"deletionTimestamp":"0001-01-01T00:00:00Z","managedFields":[{"fieldsV1":[]}]}`,
		`{"managedFields":[{"fieldsV1":null},{"manager":"coder","operation":"Update"}]}`,
	} {
		f.Add(kept)
	}
	f.Fuzz(func(t *testing.T, kept string) {
		record, err := Read(kept)
		if err != nil {
			return
		}
		record.ControlPlane, record.Name = types.NamespacedName{Namespace: "team", Name: "prod"}, "coder.ada.dev"
		text, err := record.Text()
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := Read(text)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		again.ControlPlane, again.Name = record.ControlPlane, record.Name
		if !record.IsEmpty() && !Same(again, record) {
			t.Errorf("read again (-was +is):\n%s", cmp.Diff(record, again))
		}
	})
}
