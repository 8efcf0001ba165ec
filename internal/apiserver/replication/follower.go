package replication

import (
	"context"
	"fmt"
	"io"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// followWriters follows whoever is the writer, but for this replica itself.
func (r *Replica) followWriters(ctx context.Context) {
	var last string
	for ctx.Err() == nil {
		current, changed := r.lock.seen()
		if current.identity == "" || current.own {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		err := r.followUntilReplaced(ctx, current)
		if ctx.Err() != nil {
			return
		}
		// The same reason is told once: it comes ten times a second.
		if reason := fmt.Sprint(current.identity, ": ", err); reason != last {
			log.FromContext(ctx).Info("Following the writer was interrupted", "reason", reason)
			last = reason
		}
		r.election.lookAtExpiry()
		sleep(ctx, r.config.timing.reconnect)
	}
}

// followUntilReplaced follows a writer until the stream ends or there is another
// writer. That nobody is the writer does not end it: the last changes may still come.
func (r *Replica) followUntilReplaced(ctx context.Context, current writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for {
			now, changed := r.lock.seen()
			if now != current && now.identity != "" {
				cancel()
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	err := r.follow(ctx, current)
	cancel()
	<-watched
	return err
}

// follow takes over what a writer sends.
func (r *Replica) follow(ctx context.Context, current writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(r.config.timing.silence, func() {
		cancel(fmt.Errorf("nothing came for %s", r.config.timing.silence))
	})
	defer watchdog.Stop()
	hello, err := (&frame{Kind: frameHello, Name: r.config.Identity, Logs: r.applier.standings()}).encode()
	if err != nil {
		return err
	}
	body, acks := io.Pipe()
	defer func() { _ = acks.Close() }()
	// While HTTP/2 waits for more of the body it does not look at the context.
	defer context.AfterFunc(ctx, func() { acks.CloseWithError(context.Cause(ctx)) })()
	greeted := make(chan struct{})
	go func() {
		defer close(greeted)
		// An error shows at the answer too.
		_, _ = acks.Write(hello)
	}()
	defer func() {
		_ = body.Close()
		<-greeted
	}()
	response, err := r.dialer.open(ctx, current.target(), pathFollow, body)
	if err != nil {
		return fmt.Errorf("asking %s: %w", current.address, causeOf(ctx, err))
	}
	defer response.Body.Close()
	<-greeted
	stream := &stream{Reader: response.Body, replica: r, acks: acks, alive: func() { watchdog.Reset(r.config.timing.silence) }}
	return causeOf(ctx, stream.run(ctx))
}

// causeOf gives why the context ended, where that is why something failed.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// stream is what comes from a writer.
type stream struct {
	io.Reader
	replica *Replica
	acks    io.Writer
	// alive is called with every frame.
	alive func()
}

func (s *stream) run(ctx context.Context) error {
	r := s.replica
	first, err := readFrame(s)
	if err != nil {
		return err
	}
	if first.Kind != frameHello {
		return fmt.Errorf("the writer begins with %q instead of a greeting", first.Kind)
	}
	if promised, ok := r.applier.promise(first.Term); !ok {
		return fmt.Errorf("the writer has term %d, %d was promised already", first.Term, promised)
	}
	log.FromContext(ctx).Info("Following the writer", "writer", first.Name, "term", first.Term)
	in := r.applier.intake(first.Term)
	for {
		message, err := readFrame(s)
		if err != nil {
			return err
		}
		s.alive()
		head, moved, err := in.take(message)
		if err != nil {
			return err
		}
		if message.Kind == frameBeat {
			r.measureLag(message.Logs)
		}
		if !moved {
			continue
		}
		if err := s.ack(message.Resource, head); err != nil {
			return err
		}
	}
}

func (s *stream) ack(resource string, head uint64) error {
	payload, err := (&frame{Kind: frameAck, Resource: resource, Head: head}).encode()
	if err != nil {
		return err
	}
	if _, err := s.acks.Write(payload); err != nil {
		return fmt.Errorf("acknowledging to the writer: %w", err)
	}
	return nil
}

func (r *Replica) measureLag(theirs standings) {
	for resource, config := range r.config.Logs {
		own := config.Log.Head()
		r.config.Metrics.behind(resource, max(theirs[resource].Head, own)-own)
	}
}
