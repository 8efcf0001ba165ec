package replication

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectlog"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// writeUntilDone tries again as a client does, and tells how long it took.
func writeUntilDone(t *testing.T, n *node, name, value string) time.Duration {
	t.Helper()
	begin := time.Now()
	polltest.Eventually(t, "a write is done again", func() bool {
		_, err := n.write(t.Context(), things, name, value)
		return err == nil
	})
	return time.Since(begin)
}

func TestGracefulStopHandsOver(t *testing.T) {
	c := newCluster(t, patient())
	writer, one, two := c.trio(options{})
	before := writer.mustWrite(t, "x", "1")
	begin := time.Now()
	go writer.halt()
	writeUntilDone(t, one, "x", "2")
	took := time.Since(begin)
	t.Logf("after a graceful stop of the writer a write was done in %s (target 2 s)", took)
	if took > c.timing.lease {
		t.Errorf("handing over took %s, as if nothing had been handed over", took)
	}
	next := writerOf(t, one, two)
	if got := one.logs[things].Get(key("x")).Revision; got <= before.Revision {
		t.Errorf("revision %d after %d", got, before.Revision)
	}
	// The reserve was given back: the clock was not pushed ahead.
	ahead := time.Until(time.UnixMicro(int64(next.logs[things].Head())))
	if ahead > time.Second {
		t.Errorf("the new writer's revisions are %s ahead of the clock", ahead)
	}
	if one.resetsSeen() || two.resetsSeen() {
		t.Error("a log was replaced by a snapshot")
	}
}

// resetsSeen says whether history from the beginning of the cluster is lost.
func (n *node) resetsSeen() bool {
	events, ok := n.logs[things].Since(n.logs[things].Floor(), 1)
	return !ok || len(events) == 0
}

func TestKilledWriterIsReplaced(t *testing.T) {
	c := newCluster(t, timing{})
	writer, one, two := c.trio(options{})
	writer.mustWrite(t, "x", "1")
	begin := time.Now()
	writer.kill()
	writeUntilDone(t, one, "x", "2")
	took := time.Since(begin)
	t.Logf("after a SIGKILL of the writer a write was done in %s (target 6 s)", took)
	if took > time.Minute {
		t.Errorf("taking over took %s", took)
	}
	next := writerOf(t, one, two)
	other := one
	if next == one {
		other = two
	}
	polltest.Eventually(t, "the other one has it", func() bool { return other.value("x") == "2" })
	if one.resetsSeen() || two.resetsSeen() {
		t.Error("a log was replaced by a snapshot")
	}
}

func TestACutOffWriterDecidesNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t, quick())
	writer, one, two := c.trio(options{})
	writer.mustWrite(t, "x", "1")
	writer.network.set(true)
	polltest.Eventually(t, "it notices that its followers are lost", func() bool { return writer.followers(things) == 0 })
	if entry, err := writer.write(t.Context(), things, "lonely", "1"); err == nil {
		t.Errorf("cut off from everybody the writer decides %v", entry)
	}
	next := writerOf(t, one, two)
	next.mustWrite(t, "x", "2")
	// The old one is alive and may not know yet.
	polltest.Eventually(t, "the old writer refuses", func() bool {
		_, err := writer.write(t.Context(), things, "late", "3")
		return err != nil
	})
	writer.network.set(false)
	writerOf(t, one, two, writer)
	polltest.Eventually(t, "the old writer shows what was decided without it", func() bool {
		return cmp.Equal(story(next.logs[things]), story(writer.logs[things]))
	})
}

func TestRevisionsRiseThoughClocksFallBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t, quick())
	now := time.Now()
	first := c.start("a", options{clock: stepped{time: now}})
	writerOf(t, first)
	before := first.mustWrite(t, "x", "1")
	// All replicas are gone at once, and with them the logs.
	first.kill()
	again := c.start("a", options{clock: stepped{time: now.Add(-time.Hour)}})
	writerOf(t, again)
	if head := again.logs[things].Head(); head <= before.Revision {
		t.Errorf("the new log begins at %d, clients have seen %d", head, before.Revision)
	}
	if after := again.mustWrite(t, "x", "2"); after.Revision <= before.Revision {
		t.Errorf("revision %d after %d", after.Revision, before.Revision)
	}
}

// stepped tells a time of its own, and waits in real time.
type stepped struct {
	clock.RealClock
	time time.Time
}

func (s stepped) Now() time.Time { return s.time }

func TestANewWriterTakesOverTheTailOfOthers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, quick())
	writer, one, two := c.trio(options{})
	writer.mustWrite(t, "x", "1")
	// One follower does not hear of the last change before its writer dies.
	one.network.set(true)
	polltest.Eventually(t, "the writer let the follower go", func() bool { return writer.followers(things) == 1 })
	last := writer.mustWrite(t, "x", "2")
	writer.kill()
	two.network.set(true)
	one.network.set(false)
	next := writerOf(t, one)
	two.network.set(false)
	// It may have become the writer while nobody had the change; then another value is
	// decided. Otherwise it has the tail. In any case both end up the same.
	next.mustWrite(t, "y", "1")
	writerOf(t, one, two)
	polltest.Eventually(t, "both show the same", func() bool {
		return cmp.Equal(story(one.logs[things]), story(two.logs[things]))
	})
	if head := one.logs[things].Head(); head <= last.Revision {
		t.Errorf("the head is %d, clients have seen %d", head, last.Revision)
	}
}

func TestTailIsPulledAtTakeover(t *testing.T) {
	t.Parallel()
	c := newCluster(t, patient())
	writer, one, next := c.trio(options{})
	writer.mustWrite(t, "x", "1")
	// What a dead writer told only one of its followers.
	one.passive.Store(true)
	lone := objectlog.Change{Key: key("x"), Revision: writer.numbers.Next(one.logs[things].Head()), Object: thing("x", "2"), Time: time.Now()}
	if err := one.logs[things].Append(lone); err != nil {
		t.Fatal(err)
	}
	go writer.halt()
	polltest.Eventually(t, "the other follower is the writer", next.Writing)
	if got := next.value("x"); got != "2" {
		t.Errorf("the new writer shows %q, not what one living replica had", got)
	}
	if entry := next.logs[things].Get(key("x")); entry == nil || entry.Revision != lone.Revision {
		t.Errorf("it has %+v there, not revision %d", entry, lone.Revision)
	}
}

func TestATailThatNobodyElseHasIsGivenUp(t *testing.T) {
	t.Parallel()
	c := newCluster(t, quick())
	writer, one, two := c.trio(options{})
	writer.mustWrite(t, "x", "1")
	// What a dead writer told one follower, which is cut off too when another takes over.
	one.network.set(true)
	polltest.Eventually(t, "it follows no longer", func() bool { return writer.followers(things) == 1 })
	lone := objectlog.Change{Key: key("x"), Revision: writer.numbers.Next(one.logs[things].Head()), Object: thing("x", "lone"), Time: time.Now()}
	if err := one.logs[things].Append(lone); err != nil {
		t.Fatal(err)
	}
	writer.kill()
	next := writerOf(t, two)
	one.network.set(false)
	polltest.Eventually(t, "it follows the new writer", func() bool {
		next.hub.mu.Lock()
		defer next.hub.mu.Unlock()
		return len(next.hub.followers) == 1
	})
	last := next.mustWrite(t, "y", "1")
	if last.Revision <= lone.Revision {
		t.Errorf("the new writer decides %d, a client may have seen %d", last.Revision, lone.Revision)
	}
	polltest.Eventually(t, "both show the same", func() bool {
		return cmp.Equal(story(one.logs[things]), story(two.logs[things]))
	})
	if got := one.value("x"); got != "1" {
		t.Errorf("it still shows %q", got)
	}
	if _, ok := one.logs[things].Since(lone.Revision-1, 1); ok {
		t.Error("who watches from before does not hear that history changed")
	}
	polltest.Eventually(t, "the writer counts on it again", func() bool { return next.followers(things) == 1 })
	next.mustWrite(t, "z", "1")
	if got := one.value("z"); got != "1" {
		t.Error("it is not up to date again")
	}
}

// ledger notes what every log of a cluster ever said.
type ledger struct {
	mu   sync.Mutex
	said map[uint64]string
	bad  []string
}

func (l *ledger) note(name string, event objectlog.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	says := event.Key + " " + text(event.Object)
	before, there := l.said[event.Revision]
	if there && before != says {
		l.bad = append(l.bad, fmt.Sprintf("revision %d is %q, at %s %q", event.Revision, before, name, says))
	}
	l.said[event.Revision] = says
}

// watch notes all events of a log as a client that watches does.
func (l *ledger) watch(ctx context.Context, n *node) {
	log := n.logs[things]
	at := uint64(0)
	for ctx.Err() == nil {
		changed := log.Changed()
		events, ok := log.Since(at, 1000)
		if !ok {
			at = log.Floor()
			continue
		}
		for _, event := range events {
			l.note(n.name, event)
			at = event.Revision
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// TestAnyHistoryIsOneHistory kills writers and others at random, or cuts them off for a
// while, while many write. It checks that no revision ever meant two things, that nothing acknowledged is lost,
// and that all logs are equal in the end.
func TestAnyHistoryIsOneHistory(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3} {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			runHistory(t, seed)
		})
	}
}

func runHistory(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 4))
	c := newCluster(t, hasty())
	book := &ledger{said: map[uint64]string{}}
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	defer working.Wait()
	defer cancel()
	var nodes [3]atomic.Pointer[node]
	generation := 0
	begin := func(i int) {
		n := c.start(fmt.Sprint("n", generation), options{})
		generation++
		nodes[i].Store(n)
		working.Go(func() { book.watch(ctx, n) })
	}
	all := func() []*node { return []*node{nodes[0].Load(), nodes[1].Load(), nodes[2].Load()} }
	for i := range nodes {
		begin(i)
	}
	writerOf(t, all()...)
	acknowledged := make([]atomic.Int64, 6)
	for w := range acknowledged {
		working.Go(func() {
			own := rand.New(rand.NewPCG(seed, uint64(100+w)))
			for i := int64(1); ctx.Err() == nil; i++ {
				n := nodes[own.IntN(3)].Load()
				_, err := n.write(ctx, things, fmt.Sprint("w", w), fmt.Sprint(i))
				if err == nil {
					acknowledged[w].Store(i)
				}
				if !sleep(ctx, time.Duration(own.IntN(5))*time.Millisecond) {
					return
				}
			}
		})
	}
	for range 5 {
		victim := random.IntN(3)
		if random.IntN(3) > 0 {
			victim = indexOfWriter(all())
		}
		sleep(ctx, time.Duration(random.IntN(100))*time.Millisecond)
		victimNode := nodes[victim].Load()
		switch random.IntN(6) {
		case 0:
			victimNode.halt()
			begin(victim)
		case 1, 2, 3:
			victimNode.kill()
			begin(victim)
		default:
			victimNode.network.set(true)
			sleep(ctx, time.Duration(random.IntN(2000))*time.Millisecond)
			victimNode.network.set(false)
		}
		writerOf(t, all()...)
	}
	cancel()
	working.Wait()
	writer := writerOf(t, all()...)
	writer.mustWrite(t, "last", "1")
	checkHistory(t, writer, all(), acknowledged, book)
}

func checkHistory(t *testing.T, writer *node, all []*node, acknowledged []atomic.Int64, book *ledger) {
	t.Helper()
	for _, n := range all {
		polltest.Eventually(t, "the logs are equal", func() bool { return cmp.Equal(story(writer.logs[things]), story(n.logs[things])) })
		log := n.logs[things]
		events, _ := log.Since(log.Floor(), 1<<20)
		for _, event := range events {
			book.note(n.name, event)
		}
	}
	for w := range acknowledged {
		var have int64
		if _, err := fmt.Sscan(writer.value(fmt.Sprint("w", w)), &have); err != nil || have < acknowledged[w].Load() {
			t.Errorf("client %d was told that %d is written, the log has %d (%v)", w, acknowledged[w].Load(), have, err)
		}
	}
	for _, bad := range book.bad {
		t.Error(bad)
	}
	t.Logf("%d changes", len(book.said))
}

func indexOfWriter(nodes []*node) int {
	for i, n := range nodes {
		if n.Writing() {
			return i
		}
	}
	return 0
}

func TestDutiesRunOnTheWriterAlone(t *testing.T) {
	t.Parallel()
	// A writer that lost its Lease because it got no processor learns of it late.
	c := newCluster(t, patient())
	var running, most atomic.Int32
	o := options{run: func(ctx context.Context) {
		most.Store(max(most.Load(), running.Add(1)))
		<-ctx.Done()
		running.Add(-1)
	}}
	writer, one, two := c.trio(o)
	polltest.Eventually(t, "the duties run", func() bool { return running.Load() == 1 })
	writer.halt()
	if writer.Writing() {
		t.Error("after its end a replica says it is the writer")
	}
	writerOf(t, one, two)
	polltest.Eventually(t, "the duties run elsewhere", func() bool { return running.Load() == 1 })
	if most.Load() != 1 {
		t.Errorf("duties ran on %d replicas at once", most.Load())
	}
}

// slow is a system of record that takes its time.
type slow struct{ begun, finish chan struct{} }

func (s slow) Write(ctx context.Context, _ string, _, wanted objectlog.Object) (objectlog.Object, error) {
	s.begun <- struct{}{}
	select {
	case <-s.finish:
		return wanted.DeepCopyObject().(*corev1.ConfigMap), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestGracefulStopWaitsForWritesUnderWay(t *testing.T) {
	t.Parallel()
	c := newCluster(t, patient())
	s := slow{begun: make(chan struct{}, 1), finish: make(chan struct{})}
	writer, one, _ := c.trio(options{writer: s})
	result := make(chan error, 1)
	go func() {
		_, err := one.write(context.Background(), things, "x", "1")
		result <- err
	}()
	<-s.begun
	serving := writer.term.Load()
	go writer.halt()
	polltest.Eventually(t, "the writer takes no more", func() bool {
		serving.mu.Lock()
		defer serving.mu.Unlock()
		return serving.closed
	})
	close(s.finish)
	if err := <-result; err != nil {
		t.Errorf("the write under way failed: %v", err)
	}
	if got := one.value("x"); got != "1" {
		t.Errorf("the follower shows %q", got)
	}
}

func TestAWriteInterruptedByTheWritersEndIsNotCalledDone(t *testing.T) {
	t.Parallel()
	c := newCluster(t, patient())
	s := slow{begun: make(chan struct{}, 1), finish: make(chan struct{})}
	writer, one, _ := c.trio(options{writer: s})
	result := make(chan error, 1)
	go func() {
		_, err := one.write(context.Background(), things, "x", "1")
		result <- err
	}()
	<-s.begun
	writer.kill()
	err := <-result
	// The client must not try a creation again by itself.
	if status := statusOf(t, err); status.Code != 504 || status.Details != nil && status.Details.RetryAfterSeconds != 0 {
		t.Errorf("status %+v, want 504 without Retry-After", status)
	}
	if errors.Is(err, objectlog.ErrChanged) {
		t.Error("it looks as if it could be tried again")
	}
}
