package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/coder-k8s/coder-k8s/test/bench/measure"
)

const (
	watchers = 1000
	streams  = 10
	rounds   = 10
)

// delivery is the time when a watcher received an event.
type delivery struct {
	round int
	at    time.Time
}

// fanOut measures the time from the request of a change until a thousand watchers
// receive it. They connect directly to the replica, over HTTP/2, and run in this
// process.
func (b *bench) fanOut(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k := b.kube
	var list struct {
		Metadata struct{ ResourceVersion string }
		Items    []struct{ Metadata struct{ Name string } }
	}
	if err := k.request(ctx, http.MethodGet, workspaces+"?limit=2", nil, &list); err != nil {
		return err
	}
	if len(list.Items) < 2 {
		return errors.New("there are no workspaces to change")
	}
	path := workspacesIn(b.namespace)
	address := "https://" + k.pod + ":6443" + path + "?watch=1&resourceVersion=" + list.Metadata.ResourceVersion
	deliveries := make(chan delivery, watchers*(rounds+1))
	// Not all at once: a server would have to authorize each of them first.
	var opening errgroup.Group
	opening.SetLimit(20)
	for range streams {
		client := measure.AnyCertificate()
		for range watchers / streams {
			opening.Go(func() error {
				response, err := send(ctx, client, http.MethodGet, address, bearer(k.account), nil) //nolint:bodyclose // readRounds closes it.
				if err == nil {
					go readRounds(response.Body, deliveries)
				}
				return err
			})
		}
	}
	if err := opening.Wait(); err != nil {
		return err
	}
	b.say("%d watches are open", watchers)
	var fromRequest, fromAnswer, writes []time.Duration
	for round := range rounds + 1 {
		began := time.Now()
		change := object{"metadata": object{"labels": object{"bench-round": fmt.Sprintf("r%d", round)}}}
		if err := k.request(ctx, http.MethodPatch, path+"/"+list.Items[1].Metadata.Name, change, nil); err != nil {
			return err
		}
		answered := time.Now()
		first := answered
		var times []time.Time
		for len(times) < watchers {
			select {
			case d := <-deliveries:
				if d.round == round {
					times = append(times, d.at)
					if d.at.Before(first) {
						first = d.at
					}
				}
			case <-time.After(20 * time.Second):
				return fmt.Errorf("only %d of %d watchers were told within 20 s", len(times), watchers)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if round == 0 {
			continue // It warms up the connections and caches.
		}
		writes = append(writes, answered.Sub(began))
		for _, at := range times {
			fromRequest, fromAnswer = append(fromRequest, at.Sub(began)), append(fromAnswer, at.Sub(first))
		}
	}
	b.table.add(row{measure: fmt.Sprintf("a change reaches %d watchers, from its request on, 99th percentile", watchers), ours: show(quantile(fromRequest, 0.99)), wanted: "at most 50 ms"})
	b.table.add(row{measure: "  median", ours: show(median(fromRequest))})
	b.table.add(row{measure: "  from when the first knows of it, 99th percentile", ours: show(quantile(fromAnswer, 0.99))})
	b.table.add(row{measure: "  the write itself, through kube-apiserver, median", ours: show(median(writes))})
	return nil
}

// readRounds reports each round whose mark it reads.
func readRounds(body io.ReadCloser, deliveries chan<- delivery) {
	defer func() { _ = body.Close() }()
	mark := []byte(`"bench-round":"r`)
	for lines := bufio.NewReaderSize(body, 1<<14); ; {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return
		}
		now := time.Now()
		_, rest, found := bytes.Cut(line, mark)
		digits, _, _ := bytes.Cut(rest, []byte(`"`))
		if round, err := strconv.Atoi(string(digits)); found && err == nil {
			deliveries <- delivery{round, now}
		}
	}
}
