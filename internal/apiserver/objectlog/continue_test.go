package objectlog

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

// FuzzContinue reads with tokens that clients made up: no answer may show objects
// of another namespace, and every refusal is one that a client understands.
func FuzzContinue(f *testing.F) {
	for _, seed := range []struct {
		token string
		limit int64
	}{
		{"", 0},
		{"not base64!", 1},
		{"e30", 2}, // {}
		{tokenOf(f, "/pods/b/p2\x00", "/pods/b/", 12), 3},
		{tokenOf(f, "/pods/b/p2\x00", "/pods/b/", 4), 3},
		{tokenOf(f, "/pods/b/p2\x00", "/pods/b/", -1), 1},
		{tokenOf(f, "/pods/b/p2\x00", "/pods/b/", 1<<62), 1},
		{tokenOf(f, "/pods/b/\xff", "/pods/b/", 12), 1},
		{"eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MTIsInN0YXJ0IjoiLi4vYy9wMSJ9", 5}, // start ../c/p1
	} {
		f.Add(seed.token, seed.limit)
	}
	s := newTestStore(f)
	revision := uint64(2)
	for _, namespace := range []string{"a", "b", "c"} {
		for i := range 5 {
			name := fmt.Sprint("p", i)
			mustAppend(f, s.config.Log, Change{Key: podKey(namespace, name), Revision: revision, Object: pod(namespace, name)})
			revision++
		}
	}
	compact(s.config.Log, 8)
	f.Fuzz(func(t *testing.T, token string, limit int64) {
		options := storage.ListOptions{Recursive: true, Predicate: storage.Everything}
		options.Predicate.Continue, options.Predicate.Limit = token, limit
		list := &example.PodList{}
		err := s.GetList(t.Context(), "/pods/b", options, list)
		if err != nil && !apierrors.IsBadRequest(err) && !apierrors.IsResourceExpired(err) && !storage.IsTooLargeResourceVersion(err) {
			t.Fatalf("token %q: %v", token, err)
		}
		last := ""
		for i := range list.Items {
			if list.Items[i].Namespace != "b" || list.Items[i].Name <= last {
				t.Fatalf("token %q shows %s/%s after %q", token, list.Items[i].Namespace, list.Items[i].Name, last)
			}
			last = list.Items[i].Name
		}
		if limit > 0 && int64(len(list.Items)) > limit {
			t.Fatalf("token %q: %d items with limit %d", token, len(list.Items), limit)
		}
		if err == nil && list.Continue != "" && strings.Contains(list.Continue, "\x00") {
			t.Fatalf("token %q leads to %q", token, list.Continue)
		}
	})
}

func tokenOf(tb testing.TB, key, prefix string, revision int64) string {
	tb.Helper()
	encoded, err := storage.EncodeContinue(key, prefix, revision)
	if err != nil {
		tb.Fatal(err)
	}
	return encoded
}
