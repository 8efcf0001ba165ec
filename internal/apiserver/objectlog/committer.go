package objectlog

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

// LocalCommitter decides writes on the replica that is the writer.
type LocalCommitter struct {
	log       *Log
	sequencer *Sequencer
	writer    Writer
}

var _ Committer = (*LocalCommitter)(nil)

// NewLocalCommitter gives a committer that brings each write to the system of
// record before it appends it. writer may be nil where the log is itself the
// system of record.
func NewLocalCommitter(log *Log, sequencer *Sequencer, writer Writer) *LocalCommitter {
	return &LocalCommitter{log: log, sequencer: sequencer, writer: writer}
}

// Commit writes under the key's lock.
func (c *LocalCommitter) Commit(ctx context.Context, commit Commit) (_ *Entry, err error) {
	// It begins before the lock, so that waiting for another write can be seen.
	ctx, span := tracing.Start(ctx, "Decide a write")
	defer func() { tracing.End(span, err) }()
	unlock, err := c.log.Lock(ctx, commit.Key)
	if err != nil {
		return nil, fmt.Errorf("waiting for another write of %s: %w", commit.Key, err)
	}
	defer unlock()
	current := c.log.Get(commit.Key)
	if revisionOf(current) != commit.Expect {
		return nil, ErrChanged
	}
	result, err := c.write(ctx, current, commit)
	if err != nil {
		return nil, err
	}
	if unchanged(current, result) {
		return current, nil
	}
	// The system of record has the write: who asked may be gone, the log follows.
	entries, err := c.sequencer.Propose(context.WithoutCancel(ctx),
		Proposal{Key: commit.Key, Expect: commit.Expect, Object: result})
	if err != nil {
		return nil, c.unlogged(ctx, commit, err)
	}
	return entries[0], nil
}

// unlogged is the answer for a write that the system of record has and the log has not,
// where another replica will find it. A client may try a change again, for its revision
// guards it. A creation must not be tried again by a client of its own accord: it would
// be told that its own object is in its way.
func (c *LocalCommitter) unlogged(ctx context.Context, commit Commit, err error) error {
	switch {
	case c.writer == nil:
		return err
	case commit.Expect == 0:
		klog.FromContext(ctx).Error(err, "Telling the replicas of an object that was made", "key", commit.Key)
		return apierrors.NewTimeoutError(fmt.Sprintf("%s was made, but the replicas could not be told; "+
			"look whether the object is there before trying again", commit.Key), 0)
	case errors.Is(err, ErrChanged):
		// Only losing the role of the writer does this. Another round would write twice.
		return unavailable(fmt.Errorf("another replica has taken over while %s was being written", commit.Key))
	}
	return err
}

func (c *LocalCommitter) write(ctx context.Context, current *Entry, commit Commit) (Object, error) {
	if c.writer == nil {
		return commit.Object, nil
	}
	var object Object
	if current != nil {
		object = current.Object
	}
	return c.writer.Write(ctx, commit.Key, object, commit.Object)
}

func revisionOf(entry *Entry) uint64 {
	if entry == nil {
		return 0
	}
	return entry.Revision
}

// unchanged says whether a write had no effect, which must not move the head:
// clients that write again on each change would never come to rest. It may write
// to result.
func unchanged(current *Entry, result Object) bool {
	if current == nil || result == nil {
		return current == nil && result == nil
	}
	if current.Object == result {
		return true
	}
	stamp(result, current.Revision)
	return equality.Semantic.DeepEqual(current.Object, result)
}
