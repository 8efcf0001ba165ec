package main

import (
	"context"
	"fmt"
	"time"

	"github.com/coder-k8s/coder-k8s/test/bench/measure"
)

// memory is the memory of the operator's process in bytes.
type memory struct {
	// resident is the resident memory. file is the part of it that is mapped from the program's
	// file, which a container's limit does not count and which processes of one node share. peak is
	// the maximum of resident.
	resident, file, peak float64
	// heap is the minimum heap in use, which the garbage collector cannot free.
	heap float64
}

func (m memory) String() string {
	return fmt.Sprintf("%.0f MB resident (%.0f MB of them the program's file, at most %.0f MB ever), %.1f MB live heap",
		m.resident/1e6, m.file/1e6, m.peak/1e6, m.heap/1e6)
}

// memory measures the process, and then observes its heap for a while. Reading the
// metrics allocates memory, so the garbage collector runs several times meanwhile.
func (k *kube) memory(ctx context.Context) (memory, error) {
	sizes, err := k.process.NewStatus()
	if err != nil {
		return memory{}, err
	}
	m := memory{resident: float64(sizes.VmRSS), file: float64(sizes.RssFile), peak: float64(sizes.VmHWM)}
	for end := time.Now().Add(heapWindow); time.Now().Before(end); {
		values, err := k.metrics(ctx)
		if err != nil {
			return m, err
		}
		if heap := values["go_memstats_heap_alloc_bytes"]; m.heap == 0 || heap < m.heap {
			m.heap = heap
		}
	}
	return m, nil
}

// heapWindow is how long the heap is observed.
const heapWindow = 30 * time.Second

// withOne measures the memory with one workspace.
func (b *bench) withOne(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := b.kube.restart(ctx, 1); err != nil {
		return err
	}
	m, err := b.settled(ctx, 1)
	if err != nil {
		return err
	}
	b.table.memory("memory with one workspace and 10 informers", m, "")
	b.table.add(row{measure: "  live heap", ours: fmt.Sprintf("%.1f MB", m.heap/1e6)})
	return nil
}

// withTenth measures the memory with a tenth of the workspaces.
func (b *bench) withTenth(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := b.kube.clone(ctx, b.count/10); err != nil {
		return err
	}
	if err := b.kube.restart(ctx, b.count/10+1); err != nil {
		return err
	}
	var err error
	b.small, err = b.settled(ctx, b.count/10+1)
	return err
}

// settled measures the memory while ten synced informers run. They run until the
// context is done.
func (b *bench) settled(ctx context.Context, want int) (memory, error) {
	if err := b.kube.informers(ctx, 10, want); err != nil {
		return memory{}, err
	}
	if err := measure.Pause(ctx, 20*time.Second); err != nil {
		return memory{}, err
	}
	m, err := b.kube.memory(ctx)
	b.say("%d workspaces: %s", want, m)
	return m, err
}

// afterwards measures the memory after all other phases.
func (b *bench) afterwards(ctx context.Context) error {
	m, err := b.kube.memory(ctx)
	if err != nil {
		return err
	}
	b.say("afterwards: %s", m)
	b.table.memory("memory after all of this", m, "")
	b.table.add(row{measure: "  the most it ever was", ours: fmt.Sprintf("%.0f MB", m.peak/1e6)})
	return nil
}
