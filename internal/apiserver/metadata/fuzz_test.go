package metadata_test

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
)

// FuzzDecode reads anything. It must not panic, and what can be read is the same
// when it is written and read again.
func FuzzDecode(f *testing.F) {
	resource, err := metadata.Encode(full(&place{team: "team"}, firstID))
	if err != nil {
		f.Fatal(err)
	}
	for _, spec := range []string{
		string(resource.Spec), "", "null", "{}", "[]", `{"kind":7}`,
		`{"kind":"CoderWorkspace","name":"a","uid":"` + string(firstID) + `"}`,
		`{"kind":"CoderWorkspace","name":"a","uid":"` + string(firstID) + `","intent":[1]}`,
		`{"kind":"CoderWorkspace","name":"a","uid":"` + string(firstID) + `","intent":{"a":{"a":1e400}}}`,
		`{"kind":"CoderWorkspace","name":"a","uid":"` + string(firstID) + `","intent":{"a":"\ud800<>","a":2}}`,
		`{"kind":"CoderWorkspace","name":"a","uid":"` + string(firstID) + `","metadata":{"deletionTimestamp":"0001-01-01T00:00:00Z","managedFields":[{"fieldsV1":[]}]}}`,
		`{"kind":"CoderWorkspace","name":"a","uid":"` + string(firstID) + `","metadata":{"managedFields":[{"fieldsV1":null},{"manager":"coder","operation":"Update"}]}}`,
	} {
		f.Add(spec)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		resource := &metadata.Resource{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "ws-" + string(firstID), ResourceVersion: "7"},
			Spec:       json.RawMessage(spec),
		}
		record, err := resource.Decode()
		if err != nil {
			return
		}
		metadata.Overlay(served(), record)
		encoded, err := metadata.Encode(record)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		encoded.ResourceVersion = "7"
		again, err := encoded.Decode()
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		sameRecord(t, "read again", again, record)
	})
}
