package records

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
)

// TestNamesAreEscaped checks that a name in a request cannot change the request to kube-apiserver, and that 404
// without a status, as kube-apiserver answers if the resource is not installed, does not mean that a record is absent.
func TestNamesAreEscaped(t *testing.T) {
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.RequestURI
		http.NotFound(w, r)
	}))
	defer server.Close()
	client, err := NewClient(&rest.Config{Host: server.URL}, "coderworkspacerecords", "CoderWorkspaceRecord")
	if err != nil {
		t.Fatal(err)
	}
	const records = "/apis/internal.coder.com/v1alpha1/namespaces/team/coderworkspacerecords"
	for name, want := range map[string]string{
		"coder.ada.dev":                   "/coder.ada.dev",
		"?":                               "/%3F",
		"coder.ada.dev?resourceVersion=0": "/coder.ada.dev%3FresourceVersion=0",
		"coder.ada.dev#x":                 "/coder.ada.dev%23x",
	} {
		if _, err := client.Get(t.Context(), "team", name, ""); err == nil || isAbsent(err) || got != records+want {
			t.Errorf("reading %q asked for %s, want %s; %v", name, got, records+want, err)
		}
		if err := client.Delete(t.Context(), "team", name, 1); err == nil || got != records+want {
			t.Errorf("deleting %q asked for %s, want %s; %v", name, got, records+want, err)
		}
	}
	got = ""
	for _, name := range []string{"../../kube-system/x", "..", "a/b", "%2F"} {
		if _, err := client.Get(t.Context(), "team", name, ""); err == nil || got != "" {
			t.Errorf("reading %q asked for %s; %v", name, got, err)
		}
	}
	const list = records + "?fieldSelector=metadata.name%3Da%5C%2Cmetadata.namespace%5C%3Db"
	if _, err := client.List(t.Context(), Query{Namespace: "team", Name: "a,metadata.namespace=b"}); err == nil || got != list {
		t.Errorf("listing one name asked for %s, want %s; %v", got, list, err)
	}
}
