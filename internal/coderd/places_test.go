package coderd

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestLargeItemsTakePlaces checks that a page of workspaces counts as a large response only if one
// of its workspaces is large.
func TestLargeItemsTakePlaces(t *testing.T) {
	item := func(size int) string { return `{"name":"` + strings.Repeat("x", size) + `"}` }
	for name, c := range map[string]struct {
		items string
		want  bool
	}{
		"many small workspaces": {strings.Repeat(item(smallBytes/2)+",", 10), false},
		"a large workspace":     {item(2*smallBytes) + ",", true},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+strings.ReplaceAll(name, " ", "-"), nil)
			if err != nil {
				t.Fatal(err)
			}
			res := &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"workspaces":[` + c.items))}
			limitBody(req, res, workspacesEndpoint)
			if _, err := io.Copy(io.Discard, res.Body); err != nil {
				t.Fatal(err)
			}
			taken := func() bool {
				large.mu.Lock()
				defer large.mu.Unlock()
				return large.hosts[req.URL.Host] != nil
			}
			if taken() != c.want {
				t.Errorf("it takes a place: %v, want %v", taken(), c.want)
			}
			if _ = res.Body.Close(); taken() {
				t.Error("the place is not free after Close")
			}
		})
	}
}
