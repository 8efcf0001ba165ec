package replication

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// newServer makes what other replicas reach. Only they get past the handshake.
func (r *Replica) newServer(certificate tls.Certificate) *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+pathFollow, r.serveFollow)
	mux.HandleFunc("POST "+pathCommit, r.serveCommit)
	mux.HandleFunc("POST "+pathHeads, r.serveHeads)
	mux.HandleFunc("POST "+pathPrepare, r.servePrepare)
	mux.HandleFunc("POST "+pathPull, r.servePull)
	mux.HandleFunc("POST "+pathHint, func(http.ResponseWriter, *http.Request) { r.election.look() })
	return &http.Server{
		Handler: r.announced(mux),
		TLSConfig: pinned(certificate, func(fingerprint string) error {
			ctx, cancel := context.WithTimeout(context.Background(), r.config.timing.request)
			defer cancel()
			return r.peers.trust(ctx, fingerprint)
		}),
		ReadHeaderTimeout: 2 * r.config.timing.dial,
		IdleTimeout:       time.Minute,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 1000},
	}
}

func (r *Replica) serveHeads(w http.ResponseWriter, _ *http.Request) {
	heads := map[string]uint64{}
	for resource := range r.config.Logs {
		head, open := r.decided(resource)
		if !open {
			refuse(w, "this replica is not the writer")
			return
		}
		heads[resource] = head
	}
	reply(w, heads)
}

func (r *Replica) serveCommit(w http.ResponseWriter, request *http.Request) {
	var asked commitRequest
	if !understand(w, request, &asked) {
		return
	}
	t := r.term.Load()
	if t == nil {
		refuse(w, "this replica is not the writer")
		return
	}
	response, err := r.answer(request.Context(), t, &asked)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	reply(w, response)
}

// servePrepare accepts a new writer. Nothing from earlier ones is taken afterwards,
// and where this replica is one of them it decides nothing more.
func (r *Replica) servePrepare(w http.ResponseWriter, request *http.Request) {
	var asked prepareRequest
	if !understand(w, request, &asked) {
		return
	}
	promised, ok := r.applier.promise(asked.Term)
	if t := r.term.Load(); ok && t != nil && t.number < asked.Term {
		log.FromContext(request.Context()).Info("Giving way to a newer writer", "term", t.number, "newer", asked.Term)
		r.election.stepDown()
		select {
		case <-t.over:
		case <-request.Context().Done():
			return
		}
	}
	reply(w, prepareResponse{Promised: max(promised, asked.Term), Logs: r.applier.standings()})
}

// servePull sends what the own log has beyond another one.
func (r *Replica) servePull(w http.ResponseWriter, request *http.Request) {
	var asked pullRequest
	if !understand(w, request, &asked) {
		return
	}
	if config, ok := r.config.Logs[asked.Resource]; !ok || !config.Log.Initialized() {
		refuse(w, "this replica has no such log")
		return
	}
	f := r.newFeed(w, 0, standings{asked.Resource: asked.From})
	err := r.sendBoard(f)
	if err == nil {
		err = f.begin(asked.Resource)
	}
	if err == nil {
		err = f.catchUp(asked.Resource)
	}
	if err == nil {
		err = f.frame(frame{Kind: frameEnd})
	}
	if err != nil {
		log.FromContext(request.Context()).Error(err, "Sending a log to a new writer", "resource", asked.Resource)
	}
}

// serveFollow sends a follower everything from where it is, for as long as this
// replica is the writer.
func (r *Replica) serveFollow(w http.ResponseWriter, request *http.Request) {
	number, open := r.hub.current()
	if !open {
		refuse(w, "this replica is not the writer")
		return
	}
	controller := http.NewResponseController(w)
	_ = controller.SetReadDeadline(time.Now().Add(r.config.timing.silence))
	hello, err := readFrame(request.Body)
	if err != nil || hello.Kind != frameHello {
		http.Error(w, "the follower does not say where it is", http.StatusBadRequest)
		return
	}
	_ = controller.SetReadDeadline(time.Time{})
	if err := r.feedFollower(w, request, number, hello); err != nil && request.Context().Err() == nil {
		log.FromContext(request.Context()).Info("Feeding a follower ended", "follower", hello.Name, "reason", err.Error())
	}
}

func (r *Replica) feedFollower(w http.ResponseWriter, request *http.Request, number uint64, hello *frame) error {
	f := r.newFeed(w, number, hello.Logs)
	f.sent = func(resource string) uint64 {
		revision, _ := r.hub.head(resource)
		return revision
	}
	if err := f.frame(frame{Kind: frameHello, Name: r.config.Identity}); err != nil {
		return err
	}
	if err := r.sendBoard(f); err != nil {
		return err
	}
	for resource := range r.config.Logs {
		if err := f.begin(resource); err != nil {
			return err
		}
		if err := f.catchUp(resource); err != nil {
			return err
		}
	}
	subscriber, targets, err := r.hub.join(hello.Name, f.acks())
	if err != nil {
		return err
	}
	defer r.hub.drop(subscriber)
	acks := &acks{ended: make(chan struct{})}
	go func() {
		defer close(acks.ended)
		acks.err = readAcks(request.Body, func(resource string, revision uint64) { r.hub.ack(subscriber, resource, revision) })
	}()
	defer func() {
		// This ends the reading; a body must not be read after its handler returned.
		_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
		<-acks.ended
	}()
	for resource, target := range targets {
		if err := f.batch(request.Context(), batch{resource: resource, previous: target, revision: target}, r.config.timing.appear); err != nil {
			return err
		}
	}
	return r.pump(request.Context(), f, subscriber, acks)
}

// acks is the reading of what a follower acknowledges. err is there when it ended.
type acks struct {
	ended chan struct{}
	err   error
}

// pump sends what comes up.
func (r *Replica) pump(ctx context.Context, f *feed, s *subscriber, acks *acks) error {
	ticker := time.NewTicker(r.config.timing.beat)
	defer ticker.Stop()
	board := r.config.Board.Changed()
	if err := r.sendBoard(f); err != nil {
		return err
	}
	for {
		var err error
		select {
		case b := <-s.queue:
			err = f.batch(ctx, b, r.config.timing.appear)
		case <-board:
			board = r.config.Board.Changed()
			err = r.sendBoard(f)
		case <-ticker.C:
			err = f.frame(frame{Kind: frameBeat, Logs: r.applier.standings()})
		case <-acks.ended:
			return acks.err
		case <-s.gone:
			return errors.New("it did not keep up, or this replica is no longer the writer")
		case <-ctx.Done():
			return ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

func (r *Replica) sendBoard(f *feed) error {
	all, known := r.config.Board.All()
	if !known {
		return nil
	}
	return f.frame(frame{Kind: frameBoard, Board: all})
}

// newFeed sends through an answer.
func (r *Replica) newFeed(w http.ResponseWriter, number uint64, theirs standings) *feed {
	controller := http.NewResponseController(w)
	if theirs == nil {
		theirs = standings{}
	}
	return &feed{
		term: number, logs: r.config.Logs, at: map[string]uint64{}, theirs: theirs,
		send: func(payload []byte) error {
			_ = controller.SetWriteDeadline(time.Now().Add(r.config.timing.write))
			if _, err := w.Write(payload); err != nil {
				return err
			}
			return controller.Flush()
		},
	}
}

func understand(w http.ResponseWriter, request *http.Request, into any) bool {
	if err := json.NewDecoder(io.LimitReader(request.Body, maxFrame)).Decode(into); err != nil {
		http.Error(w, "the request is not understood: "+err.Error(), http.StatusBadRequest)
		return false
	}
	return true
}

func reply(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	// An error means that the other side is gone.
	_ = json.NewEncoder(w).Encode(answer)
}

func refuse(w http.ResponseWriter, reason string) {
	http.Error(w, reason, http.StatusServiceUnavailable)
}
