package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/coder-k8s/coder-k8s/test/bench/measure"
)

// atRest measures an idle operator: its writes, its requests to Coder, and its
// memory.
func atRest(ctx context.Context, o options, c *fleetState) error {
	before, err := readMetrics(ctx, o)
	if err != nil {
		return err
	}
	changes := c.changed()
	if err := measure.Pause(ctx, o.rest); err != nil {
		return err
	}
	after, err := readMetrics(ctx, o)
	if err != nil {
		return err
	}
	minutes := o.rest.Minutes()
	fmt.Fprintf(os.Stdout, "changes_of_objects_at_rest_per_minute %.1f\n", float64(c.changed()-changes)/minutes)
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		fmt.Fprintf(os.Stdout, "api_%s_at_rest_per_minute %.1f\n", method, (after.requests[method]-before.requests[method])/minutes)
	}
	fmt.Fprintf(os.Stdout, "coder_calls_at_rest_per_minute %.1f\n", (after.coder-before.coder)/minutes)
	process, err := procfs.NewProc(o.pid)
	if err != nil {
		return err
	}
	memory, err := process.NewStatus()
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stdout, "resident_megabytes %.0f\n", float64(memory.VmRSS)/1e6)
	// A container's limit counts what is not mapped from files.
	fmt.Fprintf(os.Stdout, "resident_without_program_megabytes %.0f\n", float64(memory.RssAnon)/1e6)
	return nil
}

// counters are sums of the operator's metrics.
type counters struct {
	// requests counts the requests to the API server by method. At rest, PUT is only the leader's Lease.
	requests map[string]float64
	// coder is the number of requests to all Coders.
	coder float64
}

func readMetrics(ctx context.Context, o options) (counters, error) {
	sums := counters{requests: map[string]float64{}}
	token, err := os.ReadFile(o.token)
	if err != nil {
		return sums, err
	}
	values, err := measure.Metrics(ctx, measure.AnyCertificate(), o.metrics, strings.TrimSpace(string(token)))
	for name, value := range values {
		switch {
		case strings.HasPrefix(name, "rest_client_requests_total{"):
			_, rest, _ := strings.Cut(name, `method="`)
			method, _, _ := strings.Cut(rest, `"`)
			sums.requests[method] += value
		case strings.HasPrefix(name, "coder_k8s_coder_requests_total{"):
			sums.coder += value
		}
	}
	return sums, err
}
