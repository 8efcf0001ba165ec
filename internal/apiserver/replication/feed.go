package replication

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectlog"
)

// feed sends one other replica what the logs of this one have.
type feed struct {
	term uint64
	logs map[string]LogConfig
	// send writes an encoded frame, bounded in time.
	send func(payload []byte) error
	// at is up to where each log was sent. One that is missing waits for a snapshot
	// until the own log is past the other's.
	at map[string]uint64
	// theirs is where the logs of the other replica stood at first.
	theirs standings
	// sent is the last revision that followers were given, which may not be in the own
	// log yet. Nil means that there is none.
	sent func(resource string) uint64
}

func (f *feed) frame(message frame) error {
	message.Term = f.term
	payload, err := message.encode()
	if err != nil {
		return err
	}
	return f.send(payload)
}

// begin works out where to go on from. A log that is not the beginning of ours gets
// a snapshot, which ends the watches there.
//
// A follower that was dropped because it acknowledged late comes back at once with
// what it was sent, and that gets into the own log only when the Lease was renewed. What
// was sent is looked at first: what is sent no longer is in the log.
func (f *feed) begin(resource string) error {
	log, theirs := f.logs[resource].Log, f.theirs[resource]
	undecided := f.sent != nil && f.sent(resource) == theirs.Head
	if theirs.Initialized && (undecided || contains(log, theirs.Head)) {
		f.at[resource] = theirs.Head
		return nil
	}
	return f.snapshot(resource)
}

// contains says whether a revision is one of the log's. The history may have been
// given up before it.
func contains(log *objectlog.Log, revision uint64) bool {
	if revision == log.Head() || revision == log.Floor() {
		return log.Initialized()
	}
	events, ok := log.Since(revision-1, 1)
	return ok && len(events) == 1 && events[0].Revision == revision
}

// snapshot sends the whole log, with its history where the other can take it: its
// head must not move back.
func (f *feed) snapshot(resource string) error {
	log := f.logs[resource].Log
	entries, head := log.Origin()
	if head < f.theirs[resource].Head {
		entries, head = log.Snapshot()
	}
	if head < f.theirs[resource].Head {
		delete(f.at, resource)
		return nil
	}
	message := frame{Kind: frameState, Resource: resource, Head: head}
	size := 0
	for _, entry := range entries {
		encoded, err := encodeEntry(entry)
		if err != nil {
			return err
		}
		message.Items = append(message.Items, encoded)
		if size += len(encoded.Object); size < frameBytes && len(message.Items) < frameItems {
			continue
		}
		if err := f.frame(message); err != nil {
			return err
		}
		message.Items, size = nil, 0
	}
	message.Done = true
	f.at[resource] = head
	return f.frame(message)
}

// catchUp sends what the own log has beyond what was sent.
func (f *feed) catchUp(resource string) error {
	log := f.logs[resource].Log
	for {
		from, sent := f.at[resource]
		events, ok := log.Since(from, frameItems)
		if !sent || !ok {
			// It waits for a snapshot, or its history was given up meanwhile.
			if sent {
				f.theirs[resource] = standing{Head: from, Initialized: true}
			}
			if err := f.snapshot(resource); err != nil {
				return err
			}
			if _, sent = f.at[resource]; !sent {
				return nil
			}
			continue
		}
		if len(events) == 0 {
			return nil
		}
		if err := f.events(resource, from, events); err != nil {
			return err
		}
	}
}

// events sends some in frames of a handy size.
func (f *feed) events(resource string, from uint64, events []objectlog.Event) error {
	message := frame{Kind: frameChanges, Resource: resource, Previous: from}
	size := 0
	for i := range events {
		encoded, err := encodeChange(events[i].Change)
		if err != nil {
			return err
		}
		message.Items = append(message.Items, encoded)
		if size += len(encoded.Object); size < frameBytes && i+1 < len(events) {
			continue
		}
		message.Head = encoded.Revision
		if err := f.frame(message); err != nil {
			return err
		}
		f.at[resource] = message.Head
		message.Previous, message.Items, size = message.Head, nil, 0
	}
	return nil
}

// batch sends what the writer has decided and not appended yet. What the follower
// lacks before it is in the log, or will be in a moment.
func (f *feed) batch(ctx context.Context, b batch, patience time.Duration) error {
	at, sent := f.at[b.resource]
	if sent && at >= b.revision {
		return nil
	}
	if sent && at < b.previous || !sent {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		until := b.previous
		if !sent {
			until = b.revision
		}
		if err := f.logs[b.resource].Log.Wait(ctx, until); err != nil {
			return fmt.Errorf("waiting for the own log of %s to reach %d: %w", b.resource, until, err)
		}
		if err := f.catchUp(b.resource); err != nil {
			return err
		}
		if at, sent = f.at[b.resource]; !sent || at >= b.revision {
			return nil
		}
	}
	if at != b.previous {
		return fmt.Errorf("a batch of %s follows on %d, the follower has %d", b.resource, b.previous, at)
	}
	f.at[b.resource] = b.revision
	return f.send(b.payload)
}

// acks gives what the other replica has as soon as it has read what was sent so far.
func (f *feed) acks() map[string]uint64 {
	acked := map[string]uint64{}
	for resource, theirs := range f.theirs {
		if theirs.Initialized && f.at[resource] == theirs.Head {
			acked[resource] = theirs.Head
		}
	}
	return acked
}

// readAcks tells the hub what comes from a follower until its stream ends.
func readAcks(body io.Reader, ack func(resource string, revision uint64)) error {
	for {
		message, err := readFrame(body)
		if err != nil {
			return err
		}
		if message.Kind == frameAck {
			ack(message.Resource, message.Head)
		}
	}
}
