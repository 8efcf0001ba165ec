package callers

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestSubresourcePath(t *testing.T) {
	for want, group := range map[string]schema.GroupVersion{
		"/api/v1/namespaces/coder/pods/x/log":                 {Version: "v1"},
		"/apis/g.example/v1beta1/namespaces/coder/pods/x/log": {Group: "g.example", Version: "v1beta1"},
	} {
		if got := SubresourcePath(group, "coder", "pods", "x", "log"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
