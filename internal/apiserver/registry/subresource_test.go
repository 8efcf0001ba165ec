package registry

import (
	"context"
	"net/url"
	"reflect"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

func TestReadQuery(t *testing.T) {
	type read struct {
		Follow  bool     `json:"follow,omitempty"`
		Limit   int32    `json:"limit,omitempty"`
		After   int64    `json:"after,omitempty"`
		ID      string   `json:"id,omitempty"`
		Command []string `json:"command,omitempty"`
	}
	for query, c := range map[string]struct {
		want    read
		problem string
	}{
		"":                             {read{Limit: 7}, ""},
		"follow=true&limit=3&after=-1": {read{Follow: true, Limit: 3, After: -1}, ""},
		"follow=0&id=a%20b&unknown=x":  {read{Limit: 7, ID: "a b"}, ""},
		"limit=":                       {read{Limit: 7}, ""},
		"after=9223372036854775807":    {read{Limit: 7, After: 9223372036854775807}, ""},
		"command=&command=-x":          {read{Limit: 7, Command: []string{"", "-x"}}, ""},
		"follow=perhaps":               {problem: `follow is "perhaps", and must be true or false`},
		"limit=3000000000":             {problem: `limit is "3000000000", and must be an integer`},
		"limit=1.5":                    {problem: `limit is "1.5", and must be an integer`},
		"after=9223372036854775808":    {problem: `after is "9223372036854775808", and must be an integer`},
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		got := read{Limit: 7}
		err = readQuery(values, reflect.ValueOf(&got).Elem())
		switch {
		case c.problem == "" && (err != nil || !reflect.DeepEqual(got, c.want)):
			t.Errorf("?%s: %+v and %v, want %+v", query, got, err, c.want)
		case c.problem != "" && (!apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), c.problem)):
			t.Errorf("?%s: %v, want 400 %s", query, err, c.problem)
		}
	}
}

// TestLogsAtOnceAreLimited checks that more logs than the limit are refused until a request ends.
func TestLogsAtOnceAreLimited(t *testing.T) {
	g := NewLogGetter(nil, func(context.Context, string, *metav1.ListOptions) (runtime.Object, error) { return nil, nil })
	ctx, end := context.WithCancel(t.Context())
	for range maxLogs {
		if _, err := g.Get(ctx, "dev", &metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := g.Get(t.Context(), "dev", &metav1.ListOptions{}); !apierrors.IsTooManyRequests(err) {
		t.Fatalf("one more: %v", err)
	}
	end()
	polltest.Eventually(t, "the next log is read", func() error {
		_, err := g.Get(t.Context(), "dev", &metav1.ListOptions{})
		return err
	})
}
