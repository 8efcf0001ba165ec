package main

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

//go:embed clone.sql
var cloneSQL string

// pageSize is the maximum size of Coder's pages of workspaces.
const pageSize = 1000

// syncs is how often the first sync, and Coder's pages for comparison, are measured.
const syncs = 3

// clone creates copies of the workspace that Coder built in Coder's database, up to a
// total number.
func (k *kube) clone(ctx context.Context, total int) error {
	command := exec.CommandContext(ctx, "psql", "-q", "-d", k.database, "-v", "total="+strconv.Itoa(total), "-f", "-")
	command.Stdin = strings.NewReader(cloneSQL)
	if _, err := output(command); err != nil {
		return err
	}
	// Check that Coder itself lists them.
	var page struct {
		Count      int
		Workspaces []struct {
			Health struct{ Healthy bool }
		}
	}
	if err := k.askCoder(ctx, http.MethodGet, "/api/v2/workspaces?limit=1", nil, &page); err != nil {
		return err
	}
	if page.Count != total+1 || len(page.Workspaces) != 1 {
		return fmt.Errorf("there are %d workspaces in Coder, want %d", page.Count, total+1)
	}
	return nil
}

// pages reads all of Coder's pages sequentially, and discards them.
func (k *kube) pages(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	for offset := 0; offset < k.count+1; offset += pageSize {
		if err := k.askCoder(ctx, http.MethodGet, fmt.Sprintf("/api/v2/workspaces?limit=%d&offset=%d", pageSize, offset), nil, nil); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

// fill creates all workspaces.
func (b *bench) fill(ctx context.Context) error { return b.kube.clone(ctx, b.count) }

// firstSync measures how long an operator without records takes until it lists all
// workspaces of Coder, and then how long a restarted operator takes.
func (b *bench) firstSync(ctx context.Context) error {
	var pages, restarts []time.Duration
	var first time.Duration
	for i := range syncs + 1 {
		// Without the operator, so that it does not slow down the reading of the
		// pages.
		if err := b.kube.scale(ctx, 0); err != nil {
			return err
		}
		if i == 0 {
			if err := b.kube.forget(ctx); err != nil {
				return err
			}
		}
		took, err := b.kube.pages(ctx)
		if err != nil {
			return err
		}
		pages = append(pages, took)
		began := time.Now()
		if err := b.kube.restart(ctx, b.count+1); err != nil {
			return err
		}
		listed := time.Now()
		mirroring, err := b.kube.mirroring(ctx)
		if err != nil {
			return err
		}
		if i == 0 {
			first = listed.Sub(mirroring)
		} else {
			restarts = append(restarts, listed.Sub(began))
		}
		b.say("Coder's pages %s; everything is listed %s after the mirror began, %s after the pod was asked for",
			show(took), show(listed.Sub(mirroring)), show(listed.Sub(began)))
	}
	b.table.compare(fmt.Sprintf("first sync of %d; Coder's pages of %d", b.count+1, pageSize), median(pages), first, 3)
	b.table.add(row{measure: "a restart: from the request for a pod until it lists everything", ours: show(median(restarts))})
	return nil
}
