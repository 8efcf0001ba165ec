package registry

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestChangesFieldOwners(t *testing.T) {
	owned := func(entries ...string) *metav1.ObjectMeta {
		var all []metav1.ManagedFieldsEntry
		for i := 0; i < len(entries); i += 2 {
			all = append(all, metav1.ManagedFieldsEntry{
				Manager: entries[i], Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(entries[i+1]),
			})
		}
		return &metav1.ObjectMeta{ManagedFields: all}
	}
	const icon, both = `{"f:spec":{"f:icon":{}}}`, `{"f:spec":{"f:icon":{},"f:displayName":{}}}`
	for name, test := range map[string]struct {
		was, wanted *metav1.ObjectMeta
		want        bool
	}{
		"nothing":             {owned("git", icon), owned("git", icon), false},
		"a label":             {owned("git", icon), owned("git", `{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:icon":{}}}`), false},
		"the status":          {owned("git", icon), owned("git", icon, "coder", `{"f:status":{"f:id":{}}}`), false},
		"another order":       {owned("git", icon, "ada", both), owned("ada", both, "git", icon), false},
		"a field more":        {owned("git", icon), owned("git", both), true},
		"another manager":     {owned("git", icon), owned("git", icon, "ada", icon), true},
		"the field is taken":  {owned("git", icon), owned("ada", icon), true},
		"the field is left":   {owned("git", both), owned("git", icon), true},
		"all owners are gone": {owned("git", icon), owned(), true},
		"unreadable":          {owned("git", "{"), owned(), false},
	} {
		if got := ChangesFieldOwners(test.was, test.wanted); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
