package registry

import (
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestReadQuery(t *testing.T) {
	type read struct {
		follow bool
		limit  int32
		after  int64
		id     string
	}
	for query, c := range map[string]struct {
		want    read
		problem string
	}{
		"":                             {read{limit: 7}, ""},
		"follow=true&limit=3&after=-1": {read{follow: true, limit: 3, after: -1}, ""},
		"follow=0&id=a%20b&unknown=x":  {read{limit: 7, id: "a b"}, ""},
		"limit=":                       {read{limit: 7}, ""},
		"after=9223372036854775807":    {read{limit: 7, after: 9223372036854775807}, ""},
		"follow=perhaps":               {problem: `follow is "perhaps", and must be true or false`},
		"limit=3000000000":             {problem: `limit is "3000000000", and must be an integer`},
		"limit=1.5":                    {problem: `limit is "1.5", and must be an integer`},
		"after=9223372036854775808":    {problem: `after is "9223372036854775808", and must be an integer`},
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		got := read{limit: 7}
		err = ReadQuery(values, BoolParameter("follow", &got.follow), NumberParameter("limit", &got.limit),
			NumberParameter("after", &got.after), TextParameter("id", &got.id))
		switch {
		case c.problem == "" && (err != nil || got != c.want):
			t.Errorf("?%s: %+v and %v, want %+v", query, got, err, c.want)
		case c.problem != "" && (!apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), c.problem)):
			t.Errorf("?%s: %v, want 400 %s", query, err, c.problem)
		}
	}
}
