//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"errors"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// watching is a kubectl that watches or follows, and the lines that it has printed.
type watching struct {
	mu    sync.Mutex
	lines []string
	ended bool
}

// watch starts kubectl get --watch with more arguments; it ends with the test.
func watch(t *testing.T, args ...string) *watching {
	t.Helper()
	return follow(t, append([]string{"-n", sampleNamespace, "get", "--watch"}, args...)...)
}

// follow starts a kubectl that prints until it is done; it ends with the test.
func follow(t *testing.T, args ...string) *watching {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, "kubectl", args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w, done := &watching{}, make(chan struct{})
	go func() {
		defer close(done)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			w.mu.Lock()
			w.lines = append(w.lines, lines.Text())
			w.mu.Unlock()
		}
		w.mu.Lock()
		w.ended = true
		w.mu.Unlock()
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return w
}

// watchAll watches kinds as events of which nothing may be DELETED.
func watchAll(t *testing.T, kinds ...string) *events {
	t.Helper()
	all := &events{}
	for _, kind := range kinds {
		w := watch(t, kind, "--output-watch-events", "-o", "jsonpath={.type} {.object.kind} {.object.metadata.name}{\"\\n\"}")
		all.watches = append(all.watches, w)
		polltest.Eventually(t, "the watch of "+kind+" has begun", w.shows("ADDED"))
	}
	return all
}

// events are watches of several kinds.
type events struct{ watches []*watching }

// nothingDeleted checks that no watch reported a deletion.
func (e *events) nothingDeleted(t *testing.T) {
	t.Helper()
	for _, w := range e.watches {
		if text := w.text(); strings.Contains(text, "DELETED") {
			t.Errorf("an object is said to be deleted:\n%s", text)
		}
	}
}

// hasEnded returns an error until kubectl has ended, for polltest.Eventually.
func (w *watching) hasEnded() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		return errors.New("kubectl still runs")
	}
	return nil
}

func (w *watching) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.lines, "\n")
}

// shows returns a check that one line has all the words, for polltest.Eventually.
func (w *watching) shows(words ...string) func() error {
	return func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, line := range w.lines {
			if containsAll(line, words...) {
				return nil
			}
		}
		return &missing{words: words, lines: w.lines, ended: w.ended}
	}
}

// showsOneOf returns a check that one line has one of the words.
func (w *watching) showsOneOf(words ...string) func() error {
	return func() error {
		var errs error
		for _, word := range words {
			err := w.shows(word)()
			if err == nil {
				return nil
			}
			errs = errors.Join(errs, err)
		}
		return errs
	}
}

// missing is an error with the actual output of a watch.
type missing struct {
	words, lines []string
	ended        bool
}

func (m *missing) Error() string {
	what := "no line has " + strings.Join(m.words, ", ")
	if m.ended {
		what += ", and kubectl has ended"
	}
	return what + ":\n" + strings.Join(m.lines, "\n")
}

func containsAll(text string, words ...string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}
