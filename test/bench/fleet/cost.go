package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// clockTicks is the number of units of processor time in a second (USER_HZ). It is 100 on every
// platform that Linux supports for Go.
const clockTicks = 100

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
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("reading the processor time of process %d: %w", pid, err)
	}
	// The name of the program, in parentheses, may contain spaces. utime and stime are the 12th and
	// 13th fields after it.
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("reading the processor time of process %d: %q", pid, raw)
	}
	ticks := 0.0
	for _, field := range fields[11:13] {
		number, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return 0, fmt.Errorf("reading the processor time of process %d: %w", pid, err)
		}
		ticks += number
	}
	return ticks / clockTicks, nil
}
