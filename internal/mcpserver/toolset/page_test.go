package toolset

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
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
				if options.Namespace != "coder" {
					t.Fatalf("asked for namespace %q", options.Namespace)
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
