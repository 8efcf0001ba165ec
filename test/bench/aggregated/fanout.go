package main

import (
	"bufio"
	"bytes"
	"context"
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
	rounds   = 20
)

// delivery is the time when a watcher received an event.
type delivery struct {
	round int
	at    time.Time
}

// fanOut measures the time from the request of a change until a thousand watchers
// receive it, beside as many watchers of custom resources of equal content. The
// watchers connect directly to the server, the replica or kube-apiserver, over
// HTTP/2, and run in this process.
func (b *bench) fanOut(ctx context.Context) error {
	k := b.kube
	name, err := b.records(ctx, 2)
	if err != nil {
		return err
	}
	theirs, err := k.fan(ctx, recordsIn(b.namespace), name, k.config.Host, nil, k.ownConnection)
	if err != nil {
		return err
	}
	ours, err := k.fan(ctx, workspacesIn(b.namespace), name, "https://"+k.pod+":6443", bearer(k.account), func() (*http.Client, error) {
		return measure.AnyCertificate(), nil
	})
	if err != nil {
		return err
	}
	b.table.compare(fmt.Sprintf("a change reaches %d watchers, from its request on, 99th percentile; custom resources", watchers), quantile(theirs.fromRequest, 0.99), quantile(ours.fromRequest, 0.99), 0)
	b.table.rows[len(b.table.rows)-1].wanted = "at most 50 ms"
	b.table.compare("  median", median(theirs.fromRequest), median(ours.fromRequest), 0)
	b.table.compare("  from when the first knows of it, 99th percentile", quantile(theirs.fromFirst, 0.99), quantile(ours.fromFirst, 0.99), 0)
	b.table.compare("  the write itself, through kube-apiserver, median", median(theirs.writes), median(ours.writes), 0)
	return k.request(ctx, http.MethodDelete, definitions+"/records.bench.coder-k8s.local", nil, nil)
}

// spread is how long the changes took to reach all watchers.
type spread struct{ fromRequest, fromFirst, writes []time.Duration }

// fan opens watches of a path at a server, changes an object a few times through kube-apiserver, and
// returns when the watchers received each change.
func (k *kube) fan(ctx context.Context, path, name, server string, header http.Header, connect func() (*http.Client, error)) (*spread, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := k.request(ctx, http.MethodGet, path+"?limit=1", nil, &list); err != nil {
		return nil, err
	}
	address := server + path + "?watch=1&resourceVersion=" + list.Metadata.ResourceVersion
	deliveries := make(chan delivery, watchers*(rounds+1))
	// Not all at once: a server would have to authorize each of them first.
	var opening errgroup.Group
	opening.SetLimit(20)
	for range streams {
		client, err := connect()
		if err != nil {
			return nil, err
		}
		for range watchers / streams {
			opening.Go(func() error {
				response, err := send(ctx, client, http.MethodGet, address, header, nil) //nolint:bodyclose // readRounds closes it.
				if err == nil {
					go readRounds(response.Body, deliveries)
				}
				return err
			})
		}
	}
	if err := opening.Wait(); err != nil {
		return nil, err
	}
	out := &spread{}
	for round := range rounds + 1 {
		began := time.Now()
		change := object{"metadata": object{"labels": object{"bench-round": fmt.Sprintf("r%d", round)}}}
		if err := k.request(ctx, http.MethodPatch, path+"/"+name, change, nil); err != nil {
			return nil, err
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
				return nil, fmt.Errorf("only %d of %d watchers of %s were told within 20 s", len(times), watchers, path)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if round == 0 {
			continue // It warms up the connections and caches.
		}
		out.writes = append(out.writes, answered.Sub(began))
		for _, at := range times {
			out.fromRequest, out.fromFirst = append(out.fromRequest, at.Sub(began)), append(out.fromFirst, at.Sub(first))
		}
	}
	return out, nil
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
