package toolset

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

type told struct {
	Progress float64
	Message  string
}

// heard returns a progress and the list of its notifications.
func heard(clk *testingclock.FakeClock) (*progress, *[]told) {
	var all []told
	return &progress{token: "t", clock: clk, notify: func(_ context.Context, p *mcp.ProgressNotificationParams) error {
		all = append(all, told{p.Progress, p.Message})
		return nil
	}}, &all
}

func TestProgressComesAtMostTwiceASecondAndGrows(t *testing.T) {
	clk := testingclock.NewFakeClock(time.Unix(0, 0))
	p, all := heard(clk)
	call := &Call{progress: p, time: clk}
	for _, step := range []struct {
		after   time.Duration
		message string
	}{{0, "a"}, {499 * time.Millisecond, "too soon"}, {time.Millisecond, "b"}, {0, "too soon"}, {time.Hour, "c"}} {
		clk.Step(step.after)
		call.Progress(t.Context(), step.message)
	}
	if diff := cmp.Diff([]told{{1, "a"}, {2, "b"}, {3, "c"}}, *all); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestProgressReachesWhoAskedForIt(t *testing.T) {
	for _, revision := range []string{modern, legacy} {
		for _, token := range []any{nil, "token-1", 7} {
			s := &Set{}
			Add(s, Definition{Name: "ask", Effect: Reads}, func(ctx context.Context, call *Call, _ nothing) (nothing, error) {
				call.Progress(ctx, "half")
				return nothing{}, nil
			})
			notified := make(chan *mcp.ProgressNotificationParams, 2)
			session := serve(s, Env{Kube: fakeKube(t, interceptor.Funcs{})}).connect(t, revision, &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) { notified <- req.Params },
			})
			params := &mcp.CallToolParams{Name: "ask"}
			if token != nil {
				params.SetProgressToken(token)
			}
			say(t, session, params)
			if token == nil {
				session.Close()
				if len(notified) > 0 {
					t.Errorf("%s: told %+v to nobody who asked", revision, <-notified)
				}
				continue
			}
			select {
			case got := <-notified:
				if fmt.Sprint(got.ProgressToken) != fmt.Sprint(token) || got.Progress != 1 || got.Message != "half" {
					t.Errorf("%s, token %v: told %+v", revision, token, got)
				}
			case <-polltest.Context(t).Done():
				t.Errorf("%s, token %v: nothing was told", revision, token)
			}
		}
	}
}
