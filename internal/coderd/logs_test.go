package coderd

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"

	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// logFixture is a workspace whose build is pending.
type logFixture struct {
	server *coderdtest.Server
	client *Client
	build  uuid.UUID
}

func newLogFixture(t *testing.T) logFixture {
	t.Helper()
	// Coder may expect another cookie name than its client sends.
	server := coderdtest.New(t, coderdtest.WithManualBuilds(), coderdtest.WithHostPrefixCookie())
	client, err := New(Config{URL: server.URL, Token: server.AddUser("ada", "owner")})
	if err != nil {
		t.Fatal(err)
	}
	id := server.AddWorkspace("ada", server.AddTemplate("coder", "small", nil), "dev")
	b, err := client.Build(t.Context(), id, BuildRequest{Transition: TransitionStop})
	if err != nil {
		t.Fatal(err)
	}
	return logFixture{server, client, b.ID}
}

func (s logFixture) open(t *testing.T, follow bool) *LogStream {
	t.Helper()
	stream, err := s.client.BuildLogs(t.Context(), s.build, 0, follow)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stream.Close() })
	return stream
}

func expectLine(t *testing.T, stream *LogStream, want string) {
	t.Helper()
	line, err := stream.Next(t.Context())
	if err != nil || line.Output != want {
		t.Fatalf("got %q and %v, want line %q", line.Output, err, want)
	}
}

func expectEnd(t *testing.T, stream *LogStream) {
	t.Helper()
	for range 2 {
		if line, err := stream.Next(t.Context()); !errors.Is(err, io.EOF) {
			t.Fatalf("got %q and %v, want the end", line.Output, err)
		}
	}
}

func TestALogThatIsNotFollowedTellsWhatIsThere(t *testing.T) {
	s := newLogFixture(t)
	s.server.WriteLog(s.build, "Planning infrastructure", "one", "two")
	stream := s.open(t, false)
	s.server.WriteLog(s.build, "Planning infrastructure", "three")
	expectLine(t, stream, "one")
	expectLine(t, stream, "two")
	expectEnd(t, stream)
}

// TestLargeLogsInMemoryAreLimited checks that large logs share a limit until their lines were
// returned, and that small logs need none of it.
func TestLargeLogsInMemoryAreLimited(t *testing.T) {
	s := newLogFixture(t)
	small := s.open(t, false)
	s.server.WriteLog(s.build, "Planning infrastructure", strings.Repeat("x", smallBytes), "last")
	first := s.open(t, false)
	all := s.client.recorder.heldLogs
	held := all.Add(maxHeldLogBytes)
	if _, err := s.client.BuildLogs(t.Context(), s.build, 0, false); !IsRateLimited(err) {
		t.Errorf("one more large log: %v", err)
	}
	if got := all.Load(); got != held {
		t.Errorf("a refused log counts %d bytes", got-held)
	}
	expectEnd(t, small)
	if _, err := first.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	expectLine(t, first, "last")
	if got := all.Load(); got != maxHeldLogBytes {
		t.Errorf("a log that was read counts %d bytes", got-maxHeldLogBytes)
	}
}

// TestOnlyKeptLinesCount checks that lines of a large log count until they are returned, or dropped
// by Tail.
func TestOnlyKeptLinesCount(t *testing.T) {
	s := newLogFixture(t)
	large := strings.Repeat("x", smallBytes)
	s.server.WriteLog(s.build, "Planning infrastructure", large, large, "last")
	all := s.client.recorder.heldLogs
	whole := s.open(t, false)
	before := all.Load()
	expectLine(t, whole, large)
	if now := all.Load(); now > before-smallBytes || now < smallBytes {
		t.Errorf("%d bytes count after one of two large lines, %d before", now, before)
	}
	expectLine(t, whole, large)
	if now := all.Load(); now != 0 {
		t.Errorf("%d bytes count while a small line is left", now)
	}
	s.open(t, false).Tail(1)
	if now := all.Load(); now != 0 {
		t.Errorf("%d bytes count after Tail", now)
	}
}

// TestDroppedLog checks that a large log which nobody reads or closes counts only until its request
// ends.
func TestDroppedLog(t *testing.T) {
	s := newLogFixture(t)
	s.server.WriteLog(s.build, "Planning infrastructure", strings.Repeat("x", smallBytes), "last")
	ctx, end := context.WithCancel(t.Context())
	if _, err := s.client.BuildLogs(ctx, s.build, 0, false); err != nil {
		t.Fatal(err)
	}
	if s.client.recorder.heldLogs.Load() == 0 {
		t.Fatal("the log is not counted")
	}
	end()
	polltest.Eventually(t, "the log is not counted any more", func() bool { return s.client.recorder.heldLogs.Load() == 0 })
}

func TestALogIsFollowedToTheEndOfItsBuild(t *testing.T) {
	s := newLogFixture(t)
	s.server.WriteLog(s.build, "Planning infrastructure", "one")
	stream := s.open(t, true)
	expectLine(t, stream, "one")
	s.server.WriteLog(s.build, "Planning infrastructure", "two")
	expectLine(t, stream, "two")
	s.server.AdvanceBuilds()
	expectLine(t, stream, "Starting the build.")
	s.server.WriteLog(s.build, "Applying", "three", "four")
	expectLine(t, stream, "three")
	s.server.AdvanceBuilds()
	expectLine(t, stream, "four")
	expectLine(t, stream, "The build is done.")
	expectEnd(t, stream)
}

func TestAFollowerGoesOnWhereAConnectionEnded(t *testing.T) {
	s := newLogFixture(t)
	stream := s.open(t, true)
	s.server.WriteLog(s.build, "Planning infrastructure", "one")
	expectLine(t, stream, "one")
	// As a proxy or a restart of Coder does.
	_ = stream.live.closer.Close()
	s.server.WriteLog(s.build, "Planning infrastructure", "two")
	expectLine(t, stream, "two")
	s.server.FinishBuilds()
	expectLine(t, stream, "Starting the build.")
	expectLine(t, stream, "The build is done.")
	expectEnd(t, stream)
}

func TestAFollowerGivesUpWhereConnectionsEndAgainAndAgain(t *testing.T) {
	s := newLogFixture(t)
	stream := s.open(t, true)
	stream.source.follow = func(context.Context, int64) (liveLines, error) {
		lines := make(chan codersdk.ProvisionerJobLog)
		close(lines)
		return liveLines{build: lines, closer: io.NopCloser(nil)}, nil
	}
	var e *Error
	if _, err := stream.Next(t.Context()); !errors.As(err, &e) || !IsUnreachable(err) {
		t.Errorf("got %v", err)
	}
}

func TestAFollowerTellsNoLineTwice(t *testing.T) {
	s := newLogFixture(t)
	stream := s.open(t, true)
	stream.source.follow = func(context.Context, int64) (liveLines, error) {
		lines := make(chan codersdk.ProvisionerJobLog, 3)
		lines <- codersdk.ProvisionerJobLog{ID: 1, Output: "one"}
		lines <- codersdk.ProvisionerJobLog{ID: 1, Output: "one"}
		lines <- codersdk.ProvisionerJobLog{ID: 2, Output: "two"}
		return liveLines{build: lines, closer: io.NopCloser(nil)}, nil
	}
	expectLine(t, stream, "one")
	expectLine(t, stream, "two")
}

func TestAFollowerAsksWhereCoderForgetsToEndALog(t *testing.T) {
	s := newLogFixture(t)
	s.client.logSilence = time.Millisecond
	stream := s.open(t, true)
	if err := s.client.sdk.CancelWorkspaceBuild(t.Context(), s.build, codersdk.CancelWorkspaceBuildParams{}); err != nil {
		t.Fatal(err)
	}
	expectEnd(t, stream)
}

func TestAFollowerEndsWithItsContext(t *testing.T) {
	s := newLogFixture(t)
	stream := s.open(t, true)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := stream.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestAFollowerDoesNotTakeTheTokenElsewhere(t *testing.T) {
	s := newLogFixture(t)
	stream := s.open(t, true)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("somebody else was asked: %s", r.URL)
	}))
	defer elsewhere.Close()
	proxy := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer proxy.Close()
	client, err := New(Config{URL: proxy.URL, Token: "aaaaaaaaaa-bbbbbbbbbbbbbbbbbbbbbb"})
	if err != nil {
		t.Fatal(err)
	}
	stream.client = client
	stream.source.follow = func(ctx context.Context, after int64) (live liveLines, err error) {
		live.build, live.closer, err = client.sdk.WorkspaceBuildLogsAfter(ctx, s.build, after)
		return live, err
	}
	_, err = stream.Next(t.Context())
	want := proxy.URL + " redirects to " + elsewhere.URL + ", and the token is not sent there; use that address, or do not set CODER_REDIRECT_TO_ACCESS_URL"
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v", err)
	}
	if diff := cmp.Diff(want, e.Message); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
}
