//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clientrest "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// streamed is the annotation whose value a stream counts up.
const streamed = "example.com/stream"

// caller sends requests to the aggregated API, through kube-apiserver or directly to one replica,
// and never retries.
type caller struct {
	name, base string
	http       *http.Client
	header     http.Header
	// mayFail reports whether requests may reach the replica that is removed.
	mayFail bool
}

// direct returns a caller of one replica, as a ServiceAccount.
func direct(pod, ip, token string) *caller {
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	// The replicas' certificate is for kube-apiserver, which has its CA in the APIService.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	return &caller{name: pod, base: "https://" + net.JoinHostPort(ip, "6443"), http: &http.Client{Transport: transport}, header: header}
}

// throughKubernetes returns a caller that uses kube-apiserver like kubectl.
func throughKubernetes(t *testing.T) *caller {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientrest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return &caller{name: "kube-apiserver", base: config.Host, http: client, header: http.Header{}, mayFail: true}
}

func (c *caller) open(ctx context.Context, method, path, contentType, body string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+aggregatedAPI+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return nil, err
	}
	request.Header = c.header.Clone()
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	return c.http.Do(request)
}

func (c *caller) do(ctx context.Context, method, path, contentType, body string) (int, string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	response, err := c.open(ctx, method, path, contentType, body)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return response.StatusCode, string(answer), err
}

func (c *caller) get(ctx context.Context, path string) (int, string, error) {
	return c.do(ctx, http.MethodGet, path, "", "")
}

// stream is one writer that increments an annotation, and its readers and watchers.
type stream struct {
	ctx       context.Context
	stop      context.CancelFunc
	running   sync.WaitGroup
	kube      *caller
	followers []*follower

	last    int
	written []int
	// refused counts the error responses to writes.
	refused map[string]int
	// back is the longest time without a successful write since the leader is being removed, and
	// good is the time of the last successful write.
	back time.Duration
	good time.Time
}

// follower reads and watches with one caller.
type follower struct {
	*caller
	mu sync.Mutex
	// reads and failed count the reads, and why has the errors of the failed ones.
	reads, failed int
	why           map[string]int
	slowest       time.Duration
	// failing is the time since when reads fail, and worst is the longest such period.
	failing time.Time
	worst   time.Duration
	// seen are the values in the watch's events, and problems are its invalid events.
	seen []int
	// listed has the values that were seen before and with each list: the watch does not deliver
	// the values between them.
	listed   [][2]int
	problems []string
	// watches counts how often the watch was opened, lists how often it was refused because its
	// last revision is too old, so that the follower listed again, like an informer.
	watches, lists int
	revision       uint64
}

func newStream(t *testing.T) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	s := &stream{ctx: ctx, stop: cancel, kube: throughKubernetes(t), refused: map[string]int{}}
	t.Cleanup(func() {
		cancel()
		s.running.Wait()
	})
	return s
}

// follow reads and watches with a caller until the stream ends.
func (s *stream) follow(t *testing.T, c *caller) {
	t.Helper()
	f := &follower{caller: c, why: map[string]int{}}
	if _, err := f.list(s.ctx); err != nil {
		t.Fatalf("reading at %s: %v", c.name, err)
	}
	s.followers = append(s.followers, f)
	s.running.Go(func() { every(s.ctx, 50*time.Millisecond, func() { f.read(s.ctx) }) })
	s.running.Go(func() { every(s.ctx, 20*time.Millisecond, func() { f.watch(s.ctx) }) })
}

// every calls a function periodically until the context is done.
func every(ctx context.Context, interval time.Duration, do func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if ctx.Err() == nil {
				do()
			}
		}
	}
}

func (f *follower) read(ctx context.Context) {
	start := time.Now()
	status, body, err := f.get(ctx, "/coderworkspaces/coder.admin.hello")
	if ctx.Err() != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	f.slowest = max(f.slowest, time.Since(start))
	if err == nil && status == http.StatusOK {
		f.failing = time.Time{}
		return
	}
	f.failed++
	f.why[fmt.Sprintf("%d %v %.120s", status, err, body)]++
	if f.failing.IsZero() {
		f.failing = start
	}
	f.worst = max(f.worst, time.Since(f.failing))
}

// watch watches from the last revision until the watch ends.
func (f *follower) watch(ctx context.Context) {
	f.mu.Lock()
	from := f.revision
	f.mu.Unlock()
	response, err := f.open(ctx, http.MethodGet,
		fmt.Sprintf("/coderworkspaces?watch=true&fieldSelector=metadata.name=coder.admin.hello&resourceVersion=%d", from), "", "")
	if err != nil {
		return
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusGone {
		f.again(ctx)
	}
	if response.StatusCode != http.StatusOK {
		return
	}
	f.mu.Lock()
	f.watches++
	f.mu.Unlock()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if f.event(lines.Bytes()) {
			f.again(ctx)
			return
		}
	}
}

// list reads the current list, and returns the value. The watch continues from the revision of the
// list, because that of an object may be too old.
func (f *follower) list(ctx context.Context) (value int, err error) {
	status, body, err := f.get(ctx, "/coderworkspaces?fieldSelector=metadata.name=coder.admin.hello")
	if err != nil || status != http.StatusOK {
		return 0, fmt.Errorf("%d %.200s: %w", status, body, err)
	}
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Items) != 1 {
		return 0, fmt.Errorf("not one workspace but %d: %w", len(list.Items), err)
	}
	value, _ = valueOf(list.Items[0])
	f.mu.Lock()
	defer f.mu.Unlock()
	_, f.revision = valueOf([]byte(body))
	return value, nil
}

// again lists again after the last revision became too old.
func (f *follower) again(ctx context.Context) {
	value, err := f.list(ctx)
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists++
	last := 0
	if n := len(f.seen); n > 0 {
		last = f.seen[n-1]
	}
	f.listed = append(f.listed, [2]int{last, value})
	f.seen = append(f.seen, value)
}

// event processes a line of a watch, and reports whether the watch was refused.
func (f *follower) event(line []byte) (refused bool) {
	var event struct {
		Type   string
		Object json.RawMessage
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	err := json.Unmarshal(line, &event)
	if event.Type == "ERROR" && bytes.Contains(event.Object, []byte(`"code":410`)) {
		return true
	}
	if err != nil || event.Type != "MODIFIED" {
		f.problems = append(f.problems, fmt.Sprintf("%.300s %v", line, err))
		return false
	}
	value, revision := valueOf(event.Object)
	if revision <= f.revision {
		f.problems = append(f.problems, fmt.Sprintf("revision %d came after %d", revision, f.revision))
	}
	f.revision = revision
	if n := len(f.seen); n == 0 || f.seen[n-1] != value {
		f.seen = append(f.seen, value)
	}
	return false
}

// valueOf returns the streamed value and the revision of a workspace.
func valueOf(data []byte) (value int, revision uint64) {
	var object struct {
		Metadata struct {
			ResourceVersion string
			Annotations     map[string]string
		}
	}
	_ = json.Unmarshal(data, &object)
	value, _ = strconv.Atoi(object.Metadata.Annotations[streamed])
	revision, _ = strconv.ParseUint(object.Metadata.ResourceVersion, 10, 64)
	return value, revision
}

// patch increments the annotation once.
func (s *stream) patch() bool {
	s.last++
	status, body, err := s.kube.do(s.ctx, http.MethodPatch, "/coderworkspaces/coder.admin.hello", "application/merge-patch+json",
		fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}}}`, streamed, s.last))
	if err == nil && status == http.StatusOK {
		s.written = append(s.written, s.last)
		return true
	}
	var answer struct{ Message string }
	_ = json.Unmarshal([]byte(body), &answer)
	s.refused[strings.TrimSpace(fmt.Sprintf("%d %.200s %v", status, answer.Message, err))]++
	return false
}

// write writes several times, and all writes must succeed.
func (s *stream) write(t *testing.T, times int) {
	t.Helper()
	// An earlier stream may have left a higher value.
	_, body, _ := s.kube.get(s.ctx, "/coderworkspaces/coder.admin.hello")
	s.last, _ = valueOf([]byte(body))
	for range times {
		if !s.patch() {
			t.Fatalf("a write failed before the leader was removed: %v", s.refused)
		}
	}
}

// atLeast is how long a stream continues to write after the loss of the leader, so that the test
// does not end before the effect of the loss.
const atLeast = 5 * time.Second

// writeUntil writes until twenty writes in a row succeeded, after the function of writeMeanwhile
// has returned.
func (s *stream) writeUntil(t *testing.T, limit time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	inARow, begun := 0, time.Now()
	every(ctx, 50*time.Millisecond, func() {
		inARow++
		if !s.timed() {
			inARow = 0
		}
		if inARow >= 20 && time.Since(begun) > atLeast {
			cancel()
		}
	})
	if inARow == 0 {
		t.Errorf("nothing could be written for %s: %v", limit, s.refused)
	}
}

// writeMeanwhile writes continuously while a function runs.
func (s *stream) writeMeanwhile(do func()) {
	ctx, cancel := context.WithCancel(s.ctx)
	s.good = time.Now()
	var writing sync.WaitGroup
	writing.Go(func() { every(ctx, 50*time.Millisecond, func() { s.timed() }) })
	defer func() {
		cancel()
		writing.Wait()
		s.back = max(s.back, time.Since(s.good))
	}()
	do()
}

// timed calls patch, and measures the time since the previous write.
func (s *stream) timed() bool {
	if !s.patch() {
		return false
	}
	s.back, s.good = max(s.back, time.Since(s.good)), time.Now()
	return true
}

// end checks the observations of all followers.
func (s *stream) end(t *testing.T, within time.Duration) {
	t.Helper()
	t.Logf("writes: %d carried out, the longest time without one %.2f s; others were answered with %v", len(s.written), s.back.Seconds(), s.refused)
	if s.back > within {
		t.Errorf("nothing could be written for %.2f s, not at most %s", s.back.Seconds(), within)
	}
	for _, f := range s.followers {
		polltest.Eventually(t, "the watch at "+f.name+" has delivered everything", func() error { return f.delivered(s.written) })
	}
	s.stop()
	s.running.Wait()
	for _, f := range s.followers {
		t.Logf("%s: %d reads, the slowest %d ms, %d failed, for at most %.1f s; %d changes seen with %d watches and %d lists; %v",
			f.name, f.reads, f.slowest.Milliseconds(), f.failed, f.worst.Seconds(), len(f.seen), f.watches, f.lists, f.why)
		if len(f.problems) > 0 {
			t.Errorf("the watch at %s reported %s", f.name, strings.Join(f.problems, "\n"))
		}
		switch {
		case f.failed > 0 && !f.mayFail:
			t.Errorf("%d of %d reads at %s failed: %v", f.failed, f.reads, f.name, f.why)
		// On a busy machine the library ends a watch whose client reads too slowly; TestHistory counts
		// these watches. The next watch continues from the last revision.
		case !f.mayFail && (f.watches > 2 || f.lists > 0):
			t.Errorf("the watch at %s was opened %d times, with %d lists", f.name, f.watches, f.lists)
		case f.worst > max(within, afterKill):
			t.Errorf("reads at %s failed for %s: %v", f.name, f.worst, f.why)
		}
	}
}

// delivered returns an error unless the watch has delivered all written values, in order.
func (f *follower) delivered(written []int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := f.seen
	for _, value := range written {
		if slices.ContainsFunc(f.listed, func(l [2]int) bool { return l[0] < value && value < l[1] }) {
			continue
		}
		at := slices.Index(seen, value)
		if at < 0 {
			return fmt.Errorf("%d was written, and what was seen is %v", value, f.seen)
		}
		seen = seen[at+1:]
	}
	return nil
}
