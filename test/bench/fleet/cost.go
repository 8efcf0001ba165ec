package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/prometheus/procfs"
)

// cost is what the operator and kube-apiserver did since they started.
type cost struct {
	counters
	// operator and apiserver are their processor time in seconds.
	operator, apiserver float64
}

func readCost(ctx context.Context, o options) (cost, error) {
	sums, err := readMetrics(ctx, o)
	if err != nil {
		return cost{}, err
	}
	c := cost{counters: sums}
	if c.operator, err = processorTime(o.pid); err != nil {
		return cost{}, err
	}
	c.apiserver, err = processorTime(o.apiserver)
	return c, err
}

// printUntil prints the difference between two costs: the requests of the operator for each of the
// control planes that were created in between, and the processor time. GET includes the start of
// watches, and PUT the leader's Lease.
func (c cost) printUntil(later cost, planes int) {
	for _, method := range slices.Sorted(maps.Keys(later.requests)) {
		each := (later.requests[method] - c.requests[method]) / float64(planes)
		fmt.Fprintf(os.Stdout, "api_%s_per_control_plane %.2f\n", method, each)
	}
	fmt.Fprintf(os.Stdout, "apiserver_processor_seconds %.1f\n", later.apiserver-c.apiserver)
	fmt.Fprintf(os.Stdout, "operator_processor_seconds %.1f\n", later.operator-c.operator)
}

// processorTime returns the processor time of a process in seconds.
func processorTime(pid int) (float64, error) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return 0, err
	}
	stat, err := process.Stat()
	return stat.CPUTime(), err
}
