package replication

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// takeoverRounds bounds how often replicas are asked again because one of them has
// promised a higher term.
const takeoverRounds = 3

// answer is what a living replica says to a new writer.
type answer struct {
	peer peer
	prepareResponse
}

// takeOver makes the logs hold everything that a living replica has, lets nothing
// come from earlier writers any more, and gives the number of the term.
func (r *Replica) takeOver(ctx context.Context, number uint64) uint64 {
	living, err := r.peers.living(ctx)
	if err != nil {
		log.FromContext(ctx).Error(err, "Taking over without asking other replicas")
	}
	var answers []answer
	for range takeoverRounds {
		highest, ok := r.applier.promise(number)
		if ok {
			answers, highest = r.prepare(ctx, living, number)
		}
		if highest <= number {
			break
		}
		number = r.mandate.raise(highest)
	}
	for resource := range r.config.Logs {
		r.collect(ctx, number, resource, answers)
	}
	number = r.mandate.raise(max(number, r.greatestHead()+1) - 1)
	r.applier.promise(number)
	for resource, config := range r.config.Logs {
		if config.Log.Initialized() {
			continue
		}
		// Nobody has anything. What clients saw of an earlier process is too old now.
		if err := config.Log.Reset(nil, number); err != nil {
			log.FromContext(ctx).Error(err, "Beginning a log", "resource", resource)
		}
	}
	return number
}

// prepare asks the living replicas at once where they are. It gives the highest
// term that one of them has promised.
func (r *Replica) prepare(ctx context.Context, living []peer, number uint64) (answers []answer, highest uint64) {
	ctx, cancel := context.WithTimeout(ctx, r.config.timing.prepare)
	defer cancel()
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, other := range living {
		asking.Go(func() {
			var response prepareResponse
			err := r.dialer.call(ctx, other.target(), pathPrepare, prepareRequest{Term: number}, &response)
			if err != nil {
				log.FromContext(ctx).Info("Taking over without a replica that does not answer",
					"lease", other.name, "address", other.address, "reason", err.Error())
				return
			}
			mu.Lock()
			defer mu.Unlock()
			answers = append(answers, answer{peer: other, prepareResponse: response})
			highest = max(highest, response.Promised)
		})
	}
	asking.Wait()
	return answers, highest
}

// collect takes over what the replica with the newest log has beyond the own.
func (r *Replica) collect(ctx context.Context, number uint64, resource string, answers []answer) {
	newest := slices.SortedFunc(slices.Values(answers), func(a, b answer) int {
		switch {
		case a.Logs[resource].Head > b.Logs[resource].Head:
			return -1
		case a.Logs[resource].Head < b.Logs[resource].Head:
			return 1
		}
		return 0
	})
	own := r.config.Logs[resource].Log
	for _, other := range newest {
		theirs := other.Logs[resource]
		if !theirs.Initialized || own.Initialized() && theirs.Head <= own.Head() {
			return
		}
		err := r.pull(ctx, number, other.peer, resource)
		if err == nil {
			return
		}
		log.FromContext(ctx).Error(err, "Taking over what another replica has", "resource", resource, "lease", other.peer.name)
	}
}

// pull appends what another replica has.
func (r *Replica) pull(ctx context.Context, number uint64, from peer, resource string) error {
	ctx, cancel := context.WithTimeout(ctx, r.config.timing.pull)
	defer cancel()
	own := r.config.Logs[resource].Log
	request, err := json.Marshal(pullRequest{Resource: resource, From: standing{Head: own.Head(), Initialized: own.Initialized()}})
	if err != nil {
		return fmt.Errorf("encoding a request for the log of %s: %w", resource, err)
	}
	response, err := r.dialer.open(ctx, from.target(), pathPull, bytes.NewReader(request))
	if err != nil {
		return fmt.Errorf("asking replica %s: %w", from.name, err)
	}
	defer response.Body.Close()
	in := r.applier.intake(number)
	for {
		message, err := readFrame(response.Body)
		if err != nil {
			return fmt.Errorf("reading from replica %s: %w", from.name, err)
		}
		if message.Kind == frameEnd {
			return nil
		}
		if _, known := r.config.Board.All(); message.Kind == frameBoard && known {
			continue
		}
		if _, _, err := in.take(message); err != nil {
			return fmt.Errorf("taking over from replica %s: %w", from.name, err)
		}
	}
}

// hintAll lets the other replicas look at the Lease at once.
func (r *Replica) hintAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.config.timing.prepare)
	defer cancel()
	r.peers.mu.Lock()
	known := slices.Collect(maps.Values(r.peers.known))
	r.peers.mu.Unlock()
	var telling sync.WaitGroup
	for _, other := range known {
		telling.Go(func() {
			if err := r.dialer.call(ctx, other.target(), pathHint, struct{}{}, nil); err != nil {
				// It looks by itself a moment later.
				log.FromContext(ctx).V(1).Info("Telling another replica to look at the Lease",
					"lease", other.name, "reason", err.Error())
			}
		})
	}
	telling.Wait()
}
