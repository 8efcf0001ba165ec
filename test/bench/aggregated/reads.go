package main

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"time"
)

const (
	lists = 15
	gets  = 500
)

// reads compares LIST and GET with those of custom resources of equal size, one of
// each in turn, so that other load of the machine affects both.
func (b *bench) reads(ctx context.Context) error {
	k := b.kube
	record, err := b.records(ctx, b.count+1)
	if err != nil {
		return err
	}
	_, ours, err := timed(ctx, k.client, k.config.Host+workspaces, nil)
	if err != nil {
		return err
	}
	_, theirs, err := timed(ctx, k.client, k.config.Host+records, nil)
	if err != nil {
		return err
	}
	b.say("LIST has %.2f MB, that of the custom resources %.2f MB", float64(ours)/1e6, float64(theirs)/1e6)
	if math.Abs(float64(ours-theirs)) > 0.03*float64(theirs) {
		return fmt.Errorf("the list of custom resources has %d bytes, that of workspaces %d: they are to be equal", theirs, ours)
	}
	yardstick, own, err := alternate(ctx, lists, k.client, k.config.Host+records, k.config.Host+workspaces, nil)
	if err != nil {
		return err
	}
	b.table.compare(fmt.Sprintf("LIST all, JSON, %.1f MB; custom resources", float64(ours)/1e6), median(yardstick), median(own), 0.3)
	b.say("LIST: custom resources %s to %s, ours %s to %s", show(quantile(yardstick, 0)), show(quantile(yardstick, 1)), show(quantile(own, 0)), show(quantile(own, 1)))
	const page = "?limit=500"
	pages, ownPages, err := alternate(ctx, lists, k.client, k.config.Host+records+page, k.config.Host+workspaces+page, nil)
	if err != nil {
		return err
	}
	b.table.compare("  the first page of 500", median(pages), median(ownPages), 0.5)
	direct, _, err := alternate(ctx, lists, k.direct, "https://"+k.pod+":6443"+workspaces, "", bearer(k.account))
	if err != nil {
		return err
	}
	b.table.compare("  the same without kube-apiserver between", median(yardstick), median(direct), 0)
	path := workspacesIn(b.namespace) + "/" + record
	yardstick, own, err = alternate(ctx, gets, k.client, k.config.Host+recordsIn(b.namespace)+"/"+record, k.config.Host+path, nil)
	if err != nil {
		return err
	}
	b.table.compare("GET one; a custom resource", median(yardstick), median(own), 2)
	b.table.compare("  99th percentile", quantile(yardstick, 0.99), quantile(own, 0.99), 0)
	direct, _, err = alternate(ctx, gets, k.direct, "https://"+k.pod+":6443"+path, "", bearer(k.account))
	if err != nil {
		return err
	}
	b.table.compare("  the same without kube-apiserver between", median(yardstick), median(direct), 0)
	return k.request(ctx, http.MethodDelete, definitions+"/records.bench.coder-k8s.local", nil, nil)
}

// alternate reads two addresses in turn. The second may be empty. The first reading
// of each is a warm-up, and does not count.
func alternate(ctx context.Context, n int, client *http.Client, first, second string, header http.Header) (a, b []time.Duration, err error) {
	for i := range n + 1 {
		for _, side := range []struct {
			address string
			times   *[]time.Duration
		}{{first, &a}, {second, &b}} {
			if side.address == "" {
				continue
			}
			took, _, err := timed(ctx, client, side.address, header)
			if err != nil {
				return nil, nil, err
			}
			if i > 0 {
				*side.times = append(*side.times, took)
			}
		}
	}
	return a, b, nil
}
