package callers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestRawGet(t *testing.T) {
	api := newKubeAPI(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s?%s", r.URL.Path, r.URL.Query().Encode())
	})
	reader, err := api.client(t).Raw.Get(as(t.Context(), "alice"), "/api/v1/namespaces/coder/pods/x/log",
		url.Values{"tailLines": {"200"}, "container": {"coder & more"}, "dryRun": {"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	body, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	if want := "/api/v1/namespaces/coder/pods/x/log?container=coder+%26+more&dryRun=a&dryRun=b&tailLines=200"; string(body) != want {
		t.Errorf("the API was asked for %s, want %s", body, want)
	}
}

func TestRawGetFails(t *testing.T) {
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		}
	}
	tests := map[string]struct {
		answer http.HandlerFunc
		is     func(error) bool
		says   string
	}{
		"forbidden": {is: apierrors.IsForbidden, says: `pods "x" is forbidden`,
			answer: status(403, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"pods \"x\" is forbidden","reason":"Forbidden","code":403}`)},
		"not found": {is: apierrors.IsNotFound, says: "not found",
			answer: status(404, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"pods \"x\" not found","reason":"NotFound","code":404}`)},
		"a bad request": {is: apierrors.IsBadRequest, says: "container not found",
			answer: status(400, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"container not found","reason":"BadRequest","code":400}`)},
		"an answer that is no status": {is: apierrors.IsServiceUnavailable, answer: status(503, "no endpoints available")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			reader, err := newKubeAPI(t, tc.answer).client(t).Raw.Get(as(t.Context(), "alice"), "/api/v1/namespaces/coder/pods/x/log", nil)
			if err == nil {
				reader.Close()
				t.Fatal("there is no error")
			}
			if !tc.is(err) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestRawGetRefusesPathsThatLeadElsewhere(t *testing.T) {
	api := newKubeAPI(t, pods)
	kube := api.client(t)
	for _, path := range []string{
		"", "version", "/api/v1/namespaces/coder/pods/../secrets/x", "/api//v1", "/api/v1/", "/x?y=z", "/x#y", "/x%2Fy", `/x\y`, "/..",
	} {
		if _, err := kube.Raw.Get(as(t.Context(), "alice"), path, nil); !apierrors.IsBadRequest(err) {
			t.Errorf("%q ended with %v", path, err)
		}
	}
	if seen := api.requests(); len(seen) != 0 {
		t.Errorf("the API server was asked for %s", seen[0].URL)
	}
}

func TestRawReadingEndsWithItsContext(t *testing.T) {
	gone := make(chan struct{})
	api := newKubeAPI(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "first line")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(gone)
	})
	ctx, cancel := context.WithCancel(as(t.Context(), "alice"))
	defer cancel()
	reader, err := api.client(t).Raw.Get(ctx, "/api/v1/namespaces/coder/pods/x/log", url.Values{"follow": {"true"}})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if _, err := io.ReadFull(reader, make([]byte, len("first line\n"))); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.ReadAll(reader); !errors.Is(err, context.Canceled) {
		t.Errorf("reading ended with %v", err)
	}
	<-gone
}
