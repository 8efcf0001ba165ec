package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// buildsWatched is the number of builds that are started.
const buildsWatched = 20

// seen is an event of the workspace that a watcher received.
type seen struct {
	at     time.Time
	number int
	status string
}

// builds measures the time from the start of a build in Coder until a watcher
// receives it.
func (b *bench) builds(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var workspace struct {
		Status struct{ ID string }
	}
	path := workspacesIn(b.namespace)
	if err := b.kube.request(ctx, http.MethodGet, path+"/"+b.workspace, nil, &workspace); err != nil {
		return err
	}
	events := make(chan seen, 1000)
	ended := make(chan error, 1)
	go func() {
		ended <- b.kube.watchBuilds(ctx, path+"?watch=1&fieldSelector=metadata.name="+b.workspace, events)
	}()
	var begun, done []time.Duration
	for i := range buildsWatched {
		// Builds start at random moments of the mirror's round.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-ended:
			return err
		case <-time.After(time.Duration(rand.Float64() * float64(2*time.Second))):
		}
		transition := []string{"stop", "start"}[i%2]
		var build struct {
			Number int `json:"build_number"`
		}
		if err := b.kube.askCoder(ctx, http.MethodPost, "/api/v2/workspaces/"+workspace.Status.ID+"/builds", object{"transition": transition}, &build); err != nil {
			return err
		}
		started := time.Now()
		first, last, err := follow(ctx, events, build.Number)
		if err != nil {
			// Coder's own state shows whether Coder or the mirror is late.
			var now struct {
				LatestBuild struct {
					Number int    `json:"build_number"`
					Status string `json:"status"`
				} `json:"latest_build"`
			}
			asked := b.kube.askCoder(ctx, http.MethodGet, "/api/v2/workspaces/"+workspace.Status.ID, nil, &now)
			return errors.Join(err, fmt.Errorf("in Coder build %d is %s", now.LatestBuild.Number, now.LatestBuild.Status), asked)
		}
		// The event may arrive before Coder's response.
		begun, done = append(begun, max(0, first.Sub(started))), append(done, last.Sub(started))
	}
	b.table.add(row{measure: fmt.Sprintf("a build begun in Coder reaches a watcher, 95th percentile of %d", buildsWatched), ours: show(quantile(begun, 0.95)), wanted: "at most 1 s"})
	b.table.add(row{measure: "  median", ours: show(median(begun))})
	b.say("builds: seen after %s to %s; until their end was seen, median %s", show(quantile(begun, 0)), show(quantile(begun, 1)), show(median(done)))
	return nil
}

// watchBuilds sends each event to the channel.
func (k *kube) watchBuilds(ctx context.Context, path string, events chan<- seen) error {
	response, err := send(ctx, k.client, http.MethodGet, k.config.Host+path, nil, nil)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	decoder := json.NewDecoder(response.Body)
	for {
		var event struct {
			Type   string
			Object struct {
				Status struct {
					LatestBuild struct {
						Number int
						Status string
					}
				}
			}
		}
		if err := decoder.Decode(&event); err != nil {
			return fmt.Errorf("the watch ended: %w", err)
		}
		build := event.Object.Status.LatestBuild
		events <- seen{time.Now(), build.Number, build.Status}
	}
}

// follow waits until a build is seen, and until its end is seen.
func follow(ctx context.Context, events <-chan seen, number int) (first, last time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var latest seen
	for {
		select {
		case <-ctx.Done():
			return first, last, errors.Join(fmt.Errorf("build %d was not seen to begin and to end: last seen %+v", number, latest), ctx.Err())
		case event := <-events:
			latest = event
			if event.number < number {
				continue
			}
			if first.IsZero() {
				first = event.at
			}
			switch event.status {
			case "running", "stopped":
				return first, event.at, nil
			case "failed", "canceled":
				return first, last, fmt.Errorf("build %d: %s", number, event.status)
			}
		}
	}
}
