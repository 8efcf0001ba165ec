package apiserver

import (
	"net/http"
	"net/url"
	"testing"
)

// FuzzSelectors lists with arbitrary selectors. An invalid selector must be a client error, never a
// server error.
func FuzzSelectors(f *testing.F) {
	s := newSite(f, logged)
	s.start(f)
	world := join(f, s)
	world.addWorkspace(f, "dev")
	for _, seed := range []struct {
		fields, labels string
		limit          int64
	}{
		{"", "", 0},
		{"metadata.name=coder.ada.dev", "app in (a,b),!c", 1},
		{"metadata.namespace!=x,status.ownerName=ada,status.phase==Running", "a=b,c!=d,e", -1},
		{"spec.templateName=starter", "notin notin (notin)", 2},
		{"spec.running=", "a>1,b<2", 1 << 40},
		{`metadata.name=a\,b\=c\\`, "()", 0},
		{"metadata.name=a/b", "a=\x00", 0},
		{"metadata.name=..", "x/y/z=1", 0},
		{"metadata.namespace=%2e%2e", "é=ü", 0},
		{"status.activeVersionID=1,spec.versionID!=", ",,,", 0},
		{"metadata.name", "a in ()", 0},
		{"metadata.name=,metadata.name=x", "a in (b", 0},
	} {
		f.Add(seed.fields, seed.labels, seed.limit)
	}
	f.Fuzz(func(t *testing.T, fields, labels string, limit int64) {
		query := url.Values{}
		query.Set("fieldSelector", fields)
		query.Set("labelSelector", labels)
		query.Set("limit", text(limit))
		for _, path := range []string{world.path("coderworkspaces"), world.path("codertemplates"), group + "coderworkspaces"} {
			got := world.do(t, http.MethodGet, path+"?"+query.Encode(), nil, "")
			switch got.status {
			case http.StatusOK, http.StatusBadRequest, http.StatusUnprocessableEntity:
			default:
				t.Errorf("GET %s with fields %q, labels %q, limit %d: HTTP %d %s", path, fields, labels, limit, got.status, got.body)
			}
		}
	})
}
