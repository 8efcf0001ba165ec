package integration

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	// seedVariable and durationVariable are the environment variables that choose the
	// faults of TestHistory, and how long they continue. Each fault happens at least
	// once.
	seedVariable, durationVariable = "CODER_K8S_HISTORY_SEED", "CODER_K8S_HISTORY_DURATION"
	// pauseTime is longer than the Lease.
	pauseTime = 9 * time.Second
)

// fault is something that happens to a replica.
type fault struct {
	name string
	// leader says that it happens to the replica that holds the Lease.
	leader bool
	do     func(*history, *testing.T, *replica)
}

func allFaults() []fault {
	return []fault{
		{"killed", true, (*history).kills},
		{"killed and started again at once", false, (*history).restarts},
		{"ended", true, (*history).ends},
		{"paused", true, (*history).pauses},
		{"paused", false, (*history).pauses},
	}
}

// faults happen one after another, in the order that the seed chooses.
func (h *history) faults(t *testing.T) {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv(seedVariable), 10, 64)
	if err != nil {
		seed = 1
	}
	duration, _ := time.ParseDuration(os.Getenv(durationVariable))
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("%s=%d %s=%s", seedVariable, seed, durationVariable, duration)
	pause(t.Context(), 2*time.Second)
	for end := time.Now().Add(duration); ; {
		all := allFaults()
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, f := range all {
			r := h.replicas[random.IntN(len(h.replicas))]
			if f.leader {
				r = h.replicas.leader(t)
			}
			t.Logf("%s, holder of the Lease: %t, is %s", r.name, f.leader, f.name)
			f.do(h, t, r)
			pause(t.Context(), 2*time.Second)
		}
		if time.Now().After(end) {
			return
		}
	}
}

func (h *history) kills(t *testing.T, r *replica) {
	r.set(false)
	since := time.Now()
	r.kill()
	h.replicas.writesBack(t, since, h.ns, probe)
	h.starts(t, r)
}

func (h *history) restarts(t *testing.T, r *replica) {
	r.set(false)
	since := time.Now()
	r.kill()
	r.start(t)
	h.replicas.writesBack(t, since, h.ns, probe)
	h.serves(t, r)
}

func (h *history) ends(t *testing.T, r *replica) {
	r.set(false)
	since := time.Now()
	if code := r.terminate(t); code != 0 {
		t.Errorf("%s ended with exit code %d", r.name, code)
	}
	r.isNoHolder(t)
	h.replicas.writesBack(t, since, h.ns, probe)
	h.starts(t, r)
}

// pauses stops the process for longer than the Lease. While it does not run, another
// replica takes over; what it does afterwards must not undo anything.
func (h *history) pauses(t *testing.T, r *replica) {
	since := time.Now()
	r.pause(t)
	h.replicas.writesBack(t, since, h.ns, probe)
	h.replicas.leader(t)
	pause(t.Context(), time.Until(since.Add(pauseTime)))
	r.resume(t)
	t.Logf("%s was paused for %.1f s", r.name, time.Since(since).Seconds())
}

func (h *history) starts(t *testing.T, r *replica) {
	r.start(t)
	h.serves(t, r)
}

// serves waits until a replica that was started is ready.
func (h *history) serves(t *testing.T, r *replica) {
	t.Helper()
	r.ready(t)
	list, err := h.list(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	r.begins(revisionOf(list.GetResourceVersion()))
	r.set(true)
}

// once fails the test if Coder created a workspace twice, or not at all although the
// creation was acknowledged.
func (h *history) once(t *testing.T) {
	t.Helper()
	h.names.mu.Lock()
	defer h.names.mu.Unlock()
	for name, n := range h.names.created {
		if n > 1 {
			t.Errorf("Coder created workspace %s %d times", name, n)
		}
	}
	for name, made := range h.promise.made {
		if _, before := h.first[name]; made.created && !before && h.names.created[name[len("coder.admin."):]] != 1 {
			t.Errorf("the creation of %s was acknowledged, and Coder created it %d times", name, h.names.created[name[len("coder.admin."):]])
		}
	}
}

// count records the name of a workspace that Coder created, also if the replica that sent
// the request is killed before it receives the response.
func (c *coders) count(response *http.Response) error {
	if response.StatusCode != http.StatusCreated || !strings.HasSuffix(response.Request.URL.Path, "/workspaces") {
		return nil
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	workspace := struct{ Name string }{}
	if err := json.Unmarshal(body, &workspace); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.created[workspace.Name]++
	return nil
}
