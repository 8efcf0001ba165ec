package callers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	protocol "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/remoteexec"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// execAPI is a fake API that runs commands. It supports only SPDY, the fallback if a proxy
// does not forward WebSockets.
type execAPI struct {
	run  func(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error
	seen atomic.Pointer[http.Request]
	// status, if set, is the response to every request.
	status *metav1.Status
}

func (a *execAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.seen.Store(r)
	switch {
	case a.status != nil:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(a.status.Code))
		_ = json.NewEncoder(w).Encode(a.status)
	case r.Method == http.MethodGet:
		http.Error(w, "no WebSockets here", http.StatusBadRequest)
	default:
		remotecommand.ServeExec(w, r, a, "", "", "", nil, &remotecommand.Options{Stdin: true, Stdout: true, Stderr: true},
			time.Minute, time.Minute, []string{protocol.StreamProtocolV4Name})
	}
}

func (a *execAPI) ExecInContainer(ctx context.Context, _, _, _ string, _ []string, in io.Reader, out, errs io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	return a.run(ctx, in, out, errs)
}

func execOf(t *testing.T, api *execAPI) Exec {
	t.Helper()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	e, err := newExec(impersonating(&rest.Config{Host: server.URL + "/behind/a/proxy"}))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func asAda(ctx context.Context) context.Context {
	return request.WithUser(ctx, &user.DefaultInfo{Name: "ada", Groups: []string{"compilers"}})
}

func TestExecRunsAsTheCaller(t *testing.T) {
	api := &execAPI{run: func(_ context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
		_, err := io.Copy(stdout, stdin)
		_, errs := io.WriteString(stderr, "problem")
		if err := errors.Join(err, errs); err != nil {
			return err
		}
		return utilexec.CodeExitError{Err: errors.New("exit 7"), Code: 7}
	}}
	e := execOf(t, api)
	var stdout, stderr bytes.Buffer
	// A tool that reads also runs commands, here with a POST.
	err := e(ReadOnly(asAda(polltest.Context(t))), "coder", "coder.ada.dev", "main", remoteexec.Command{
		Args: []string{"echo", "a b", "&command=x"}, Stdin: strings.NewReader("in\x00"), Stdout: &stdout, Stderr: &stderr,
	})
	var exit utilexec.ExitError
	if !errors.As(err, &exit) || exit.ExitStatus() != 7 || stdout.String() != "in\x00" || stderr.String() != "problem" {
		t.Errorf("%v, stdout %q, stderr %q", err, &stdout, &stderr)
	}
	r := api.seen.Load()
	if got, want := r.URL.Path, "/behind/a/proxy/apis/aggregation.coder.com/v1alpha1/namespaces/coder/coderworkspaces/coder.ada.dev/exec"; got != want {
		t.Errorf("the path is %s, want %s", got, want)
	}
	if got, want := r.URL.RawQuery, "agent=main&command=echo&command=a+b&command=%26command%3Dx&stderr=true&stdin=true&stdout=true"; got != want {
		t.Errorf("the query is %s, want %s", got, want)
	}
	if r.Header.Get("Impersonate-User") != "ada" || r.Header.Get("Impersonate-Group") != "compilers" {
		t.Errorf("the headers are %v", r.Header)
	}
}

func TestExecSendsNothingWithoutACallerOrToAnotherPath(t *testing.T) {
	api := &execAPI{}
	e := execOf(t, api)
	if err := e(t.Context(), "coder", "dev", "", remoteexec.Command{Args: []string{"true"}, Stdout: io.Discard}); !errors.Is(err, errNoCaller) {
		t.Errorf("without a caller: %v", err)
	}
	for _, name := range []string{"..", "a/b", "a?b", "", "a%2fb"} {
		if err := e(asAda(t.Context()), "coder", name, "", remoteexec.Command{Args: []string{"true"}, Stdout: io.Discard}); !apierrors.IsBadRequest(err) {
			t.Errorf("workspace %q: %v", name, err)
		}
	}
	if r := api.seen.Load(); r != nil {
		t.Errorf("sent is %s %s", r.Method, r.URL)
	}
}

func TestARefusalOfExecIsAStatus(t *testing.T) {
	refusal := apierrors.NewForbidden(aggregationv1alpha1.Resource("coderworkspaces/exec"), "dev", errors.New("no role")).ErrStatus
	e := execOf(t, &execAPI{status: &refusal})
	err := e(asAda(polltest.Context(t)), "coder", "dev", "", remoteexec.Command{Args: []string{"true"}, Stdout: io.Discard})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "no role") {
		t.Errorf("the error is %v", err)
	}
}

func TestExecIsLimitedForEachCaller(t *testing.T) {
	release := make(chan struct{})
	var running atomic.Int32
	e := execOf(t, &execAPI{run: func(context.Context, io.Reader, io.Writer, io.Writer) error {
		running.Add(1)
		<-release
		return nil
	}})
	run := func(ctx context.Context) error {
		return e(ctx, "coder", "dev", "", remoteexec.Command{Args: []string{"true"}, Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard})
	}
	ctx := polltest.Context(t)
	ended := make(chan error, maxExecs+1)
	for range maxExecs {
		go func() { ended <- run(asAda(ctx)) }()
	}
	polltest.Eventually(t, "all run", func() error {
		if got := running.Load(); got < maxExecs {
			return errors.New("some do not run yet")
		}
		return nil
	})
	if err := run(asAda(ctx)); !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), "8 commands of this user are running") {
		t.Errorf("one more: %v", err)
	}
	go func() { ended <- run(request.WithUser(ctx, &user.DefaultInfo{Name: "bob"})) }()
	polltest.Eventually(t, "the one of somebody else runs", func() error {
		if running.Load() <= maxExecs {
			return errors.New("it does not run yet")
		}
		return nil
	})
	close(release)
	for range maxExecs + 1 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if err := run(asAda(ctx)); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
