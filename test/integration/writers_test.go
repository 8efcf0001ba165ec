package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// promise records the requested changes of the workspaces, and which were acknowledged:
// these must exist at the end, whichever replicas were killed.
type promise struct {
	mu   sync.Mutex
	made map[string]*promised
	// done and refused count the successful and the failed requests, by kind of request.
	done, refused map[string]int
}

type promised struct {
	created, deleting, deleted bool
	// last is the last acknowledged value of a writer's label, and unknown has the later
	// values whose outcome is not known.
	last    map[string]string
	unknown map[string][]string
}

// writer writes through Kubernetes, to any running replica.
type writer struct {
	name         string
	namespace    string
	replicas     replicas
	observations *observations
	promise      *promise
	calls        *callLog
	// patient also sends requests to a replica that is paused.
	patient bool
}

func newPromise(names ...string) *promise {
	p := &promise{made: map[string]*promised{}, done: map[string]int{}, refused: map[string]int{}}
	for _, name := range names {
		p.of(name).created = true
	}
	return p
}

// of needs the lock.
func (p *promise) of(name string) *promised {
	if p.made[name] == nil {
		p.made[name] = &promised{last: map[string]string{}, unknown: map[string][]string{}}
	}
	return p.made[name]
}

func (p *promise) names() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.made))
}

func (p *promise) note(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// run sends writes until the context is done.
func (w *writer) run(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		names := w.promise.names()
		name := names[rand.IntN(len(names))]
		switch rand.IntN(10) {
		case 0:
			w.create(fmt.Sprintf("coder.admin.%s-%d", w.name, n))
		case 1:
			w.remove(name)
		case 2, 3:
			w.patch("running", name, fmt.Sprintf(`{"spec":{"running":%t}}`, rand.IntN(2) == 0), call{verb: changed})
		case 4, 5:
			w.patch("ttl", name, fmt.Sprintf(`{"spec":{"ttlMillis":%d}}`, (1+rand.IntN(100))*3600000), call{verb: changed})
		default:
			w.label(name, fmt.Sprintf("v%d", n))
		}
		pause(ctx, time.Duration(20+rand.IntN(150))*time.Millisecond)
	}
}

// replica chooses a replica for the next request.
func (w *writer) replica() *replica {
	if r := w.replicas[rand.IntN(len(w.replicas))]; w.patient && !r.dead() {
		return r
	}
	return w.replicas.any()
}

// try sends a request to one replica, records it, and judges the error. Nothing interrupts
// a write, so that its outcome is known if possible.
func (w *writer) try(name, what string, in call, do func(context.Context, dynamic.ResourceInterface) (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(context.Background(), polltest.Timeout())
	defer cancel()
	r := w.replica()
	_, life := r.alive()
	in.replica = r.name
	began := w.calls.now()
	object, err := do(ctx, r.client.Resource(workspacesGVR).Namespace(w.namespace))
	w.promise.note(func() {
		if err == nil {
			w.promise.done[what]++
		} else {
			w.promise.refused[what+" "+string(apierrors.ReasonForError(err))]++
		}
	})
	var broken *url.Error
	switch {
	case err == nil && object != nil:
		w.calls.add(name, in, began, found(object))
	case err == nil:
		w.calls.add(name, in, began, outcome{known: true, exists: true})
	case apierrors.IsNotFound(err):
		w.calls.add(name, in, began, outcome{known: true})
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
	default:
		w.calls.add(name, in, began, outcome{})
	}
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
	case apierrors.IsServiceUnavailable(err), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
	case !sameLife(r, life) && (errors.As(err, &broken) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)):
	default:
		w.observations.fault("%s: %s at %s: %v", w.name, what, r.name, err)
	}
	if err == nil && object != nil {
		w.observations.answered(object)
	}
	return object, err
}

func (w *writer) create(name string) {
	w.promise.note(func() { w.promise.of(name) })
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "aggregation.coder.com/v1alpha1", "kind": "CoderWorkspace",
		"metadata": map[string]any{"name": name, "labels": map[string]any{"probe": "created"}},
		"spec":     map[string]any{"templateName": "hello", "running": rand.IntN(2) == 0},
	}}
	create := func(ctx context.Context, c dynamic.ResourceInterface) (*unstructured.Unstructured, error) {
		return c.Create(ctx, object.DeepCopy(), metav1.CreateOptions{FieldManager: w.name})
	}
	_, err := w.try(name, "create", call{verb: creates}, create)
	if err != nil {
		// Like a user who applies the manifest again: nothing may be created twice.
		_, err = w.try(name, "create again", call{verb: creates}, create)
	}
	if err == nil || apierrors.IsAlreadyExists(err) {
		w.promise.note(func() { w.promise.of(name).created = true })
	}
}

func (w *writer) remove(name string) {
	w.promise.note(func() { w.promise.of(name).deleting = true })
	_, err := w.try(name, "delete", call{verb: deletes}, func(ctx context.Context, c dynamic.ResourceInterface) (*unstructured.Unstructured, error) {
		return nil, c.Delete(ctx, name, metav1.DeleteOptions{})
	})
	if err == nil {
		w.promise.note(func() { w.promise.of(name).deleted = true })
	}
}

func (w *writer) patch(what, name, content string, in call) error {
	_, err := w.try(name, what, in, func(ctx context.Context, c dynamic.ResourceInterface) (*unstructured.Unstructured, error) {
		return c.Patch(ctx, name, types.MergePatchType, []byte(content), metav1.PatchOptions{FieldManager: w.name})
	})
	return err
}

// label changes this writer's own label.
func (w *writer) label(name, value string) {
	w.promise.note(func() {
		p := w.promise.of(name)
		p.unknown[w.name] = append(p.unknown[w.name], value)
	})
	if w.patch("label", name, fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, w.name, value), call{verb: labeled, key: w.name, value: value}) == nil {
		w.promise.note(func() {
			p := w.promise.of(name)
			p.last[w.name], p.unknown[w.name] = value, nil
		})
	}
}

// kept fails the test if an acknowledged change is missing at the end.
func (p *promise) kept(t *testing.T, objects map[string]*unstructured.Unstructured) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	t.Logf("answered well: %v; refused: %v", p.done, p.refused)
	for name, made := range p.made {
		object := objects[name]
		switch {
		case object == nil && made.created && !made.deleting:
			t.Errorf("%s was made and is gone", name)
		case object != nil && made.deleted:
			t.Errorf("%s was deleted and is there", name)
		case object == nil:
			continue
		}
		for writer, value := range made.last {
			if got := object.GetLabels()[writer]; got != value && !slices.Contains(made.unknown[writer], got) {
				t.Errorf("label %s of %s is %q, promised was %q, and possible are %v", writer, name, got, value, made.unknown[writer])
			}
		}
	}
}

// colleague uses Coder's API directly, and not Kubernetes.
type colleague struct {
	client   *coderd.Client
	owner    string
	template uuid.UUID
	fault    func(format string, args ...any)
	done     map[string]int
}

// run creates, starts, stops and deletes workspaces until the context is done.
func (c *colleague) run(ctx context.Context) {
	c.done = map[string]int{}
	for n := 0; ctx.Err() == nil; n++ {
		if err := c.step(n); err != nil && !coderd.IsConflict(err) && !coderd.IsNotFound(err) {
			c.fault("a colleague who works with Coder: %v", err)
		}
		pause(ctx, time.Duration(200+rand.IntN(400))*time.Millisecond)
	}
}

func (c *colleague) step(n int) error {
	ctx, cancel := context.WithTimeout(context.Background(), polltest.Timeout())
	defer cancel()
	if n%5 == 0 {
		_, err := c.client.CreateWorkspace(ctx, c.owner, coderd.NewWorkspace{Name: fmt.Sprintf("direct-%d", n), TemplateID: c.template})
		return c.count("create", err)
	}
	page, err := c.client.WorkspacePage(ctx, 0, coderd.MaxWorkspacePage)
	all := page.Workspaces
	if err != nil || len(all) == 0 {
		return err
	}
	transition := []coderd.Transition{coderd.TransitionStart, coderd.TransitionStop, coderd.TransitionStop, coderd.TransitionDelete}[rand.IntN(4)]
	chosen := all[rand.IntN(len(all))]
	if chosen.OwnerName != c.owner {
		// What the writers made they shall find again.
		transition = coderd.TransitionStop
	}
	_, err = c.client.Build(ctx, chosen.ID, coderd.BuildRequest{Transition: transition})
	return c.count(string(transition), err)
}

func (c *colleague) count(what string, err error) error {
	if err == nil {
		c.done[what]++
	}
	return err
}
