package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// atRest measures an idle operator: its writes, its requests to Coder, and its
// memory.
func atRest(ctx context.Context, o options, c *fleetState) error {
	before, err := readMetrics(ctx, o)
	if err != nil {
		return err
	}
	changes := c.changed()
	select {
	case <-time.After(o.rest):
	case <-ctx.Done():
		return ctx.Err()
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
	memory, err := residentMemory(o.pid)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stdout, "resident_megabytes %.0f\n", memory["VmRSS:"])
	fmt.Fprintf(os.Stdout, "resident_without_program_megabytes %.0f\n", memory["RssAnon:"])
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
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, o.metrics, nil)
	if err != nil {
		return sums, err
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	// The process serves its own certificate, and its address is on this machine.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := client.Do(request)
	if err != nil {
		return sums, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return sums, fmt.Errorf("%s answers %s", o.metrics, response.Status)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		sums.add(lines.Text())
	}
	return sums, lines.Err()
}

func (c *counters) add(line string) {
	name, value, found := cutLast(line, " ")
	if !found {
		return
	}
	number, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return
	}
	switch {
	case strings.HasPrefix(name, "rest_client_requests_total{"):
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			if strings.Contains(name, `method="`+method+`"`) {
				c.requests[method] += number
			}
		}
	case strings.HasPrefix(name, "coder_k8s_coder_requests_total{"):
		c.coder += number
	}
}

func cutLast(s, separator string) (before, after string, found bool) {
	at := strings.LastIndex(s, separator)
	if at < 0 {
		return s, "", false
	}
	return s[:at], s[at+len(separator):], true
}

// residentMemory returns the memory of a process in megabytes: VmRSS, the resident memory, and
// RssAnon, the part that is not mapped from files, which a container's limit counts.
func residentMemory(pid int) (map[string]float64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil, fmt.Errorf("reading the memory of process %d: %w", pid, err)
	}
	memory := map[string]float64{}
	for line := range strings.Lines(string(raw)) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[2] != "kB" {
			continue
		}
		if kilobytes, err := strconv.ParseFloat(fields[1], 64); err == nil {
			memory[fields[0]] = kilobytes * 1024 / 1e6
		}
	}
	return memory, nil
}
