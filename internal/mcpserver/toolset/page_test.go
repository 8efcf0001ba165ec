package toolset

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestPagesHoldEachItemOnce(t *testing.T) {
	var all []string
	for i := range 23 {
		all = append(all, fmt.Sprint(i))
	}
	for name, paged := range map[string]bool{"a server with pages": true, "a server without pages": false} {
		t.Run(name, func(t *testing.T) {
			// answer is the response of the API for the options of a page.
			answer := func(p Page) (items []string, next string) {
				options := p.Options("coder")
				if options.Namespace != "coder" || options.Limit != 5 {
					t.Fatalf("asked for %d of namespace %q", options.Limit, options.Namespace)
				}
				if !paged {
					return all, ""
				}
				start, _ := strconv.Atoi(options.Continue)
				end := min(start+int(options.Limit), len(all))
				if end < len(all) {
					next = fmt.Sprint(end)
				}
				return all[start:end], next
			}
			var got []string
			cursor := ""
			for calls := 1; ; calls++ {
				p, err := NewPage(5, cursor)
				if err != nil {
					t.Fatal(err)
				}
				items, next := answer(p)
				var shown []string
				shown, cursor = Cut(p, items, next)
				if len(shown) > 5 {
					t.Fatalf("a page has %d items", len(shown))
				}
				got = append(got, shown...)
				if cursor == "" {
					break
				}
				if calls > len(all) {
					t.Fatal("the pages have no end")
				}
			}
			if diff := cmp.Diff(all, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLimitsHaveBounds(t *testing.T) {
	for limit, want := range map[int]int{0: defaultLimit, -1: defaultLimit, 7: 7, 100000: maxLimit} {
		if p, err := NewPage(limit, ""); err != nil || p.limit != want {
			t.Errorf("limit %d becomes %d, %v; want %d", limit, p.limit, err, want)
		}
	}
}

func FuzzCursor(f *testing.F) {
	for _, seed := range []string{"", "x", "eyJvIjotMX0", "e30=", "eyJjIjoiYSIsIm8iOjV9", position{Continue: "a", Offset: 7}.String(), "eyJvIjo5MjIzMzcyMDM2ODU0Nzc1ODA3fQ"} {
		f.Add(seed)
	}
	items := []int{1, 2, 3}
	f.Fuzz(func(t *testing.T, cursor string) {
		p, err := NewPage(2, cursor)
		if err != nil {
			if _, isUsage := err.(UsageError); !isUsage { //nolint:errorlint // It is not wrapped.
				t.Errorf("the error is %T", err)
			}
			return
		}
		if shown, next := Cut(p, items, ""); len(shown) > 2 || next == cursor && next != "" {
			t.Errorf("cursor %q shows %v and goes on at %q", cursor, shown, next)
		}
	})
}

// pages is an API with this number of pages, with one Event each. It fails at one of them.
type pages struct {
	client.Reader
	have, failAt, asked int
}

var errBroken = errors.New("broken")

func (p *pages) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	if options.Limit != EventsPerPage || options.Namespace != "coder" || options.Continue != strings.Repeat("n", p.asked) {
		return errors.New("it asks for something else")
	}
	if p.asked++; p.asked == p.failAt {
		return errBroken
	}
	list.(*corev1.EventList).Items = make([]corev1.Event, 1)
	if p.asked < p.have {
		list.SetContinue(strings.Repeat("n", p.asked))
	}
	return nil
}

func TestReadEvents(t *testing.T) {
	for name, tt := range map[string]struct {
		api  pages
		read int
		next string
		err  error
	}{
		"one page":        {pages{have: 1}, 1, "", nil},
		"just all":        {pages{have: MaxEventPages}, MaxEventPages, "", nil},
		"too many":        {pages{have: 10}, MaxEventPages, "nnnn", nil},
		"broken at first": {pages{have: 3, failAt: 1}, 0, "", errBroken},
		"broken later":    {pages{have: 3, failAt: 2}, 1, "", errBroken},
	} {
		read, next, failed := ReadEvents(t.Context(), &tt.api, client.ListOptions{Namespace: "coder", Limit: 3})
		if len(read) != tt.read || next != tt.next || (failed == nil) != (tt.err == nil) {
			t.Errorf("%s: %d Events, next %q, %v", name, len(read), next, failed)
		}
		if failed != nil && (!errors.Is(failed, tt.err) || failed.Resource != "events" || failed.Namespace != "coder") {
			t.Errorf("%s: %v", name, failed)
		}
	}
}
