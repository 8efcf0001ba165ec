//go:build e2e

package flux

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var (
	gitRepositories = schema.GroupVersionResource{Group: "source.toolkit.fluxcd.io", Version: "v1", Resource: "gitrepositories"}
	kustomizations  = schema.GroupVersionResource{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Resource: "kustomizations"}
)

// interval is the interval in which Flux checks for drift.
const interval = 3 * time.Second

// source is a GitRepository that only the test updates, and the Kustomizations of
// its folders.
type source struct {
	*fluxed
	t        *testing.T
	name     string
	revision string
}

func (f *fluxed) source(t *testing.T, name string) *source {
	t.Helper()
	f.create(t, gitRepositories, object{namespace: system}, fmt.Sprintf(`
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: %s, namespace: %s}
spec: {interval: 1h, url: "https://example.com/nobody/asks.git"}
`, name, system))
	return &source{fluxed: f, t: t, name: name}
}

// publish replaces the content of the source.
func (s *source) publish(files map[string]string) {
	s.t.Helper()
	made, err := s.artifacts.Put(s.name, files)
	must(s.t, err)
	now := time.Now().UTC().Format(time.RFC3339)
	raw, err := json.Marshal(map[string]any{"status": map[string]any{
		"observedGeneration": 1,
		"artifact": map[string]any{
			"path": made.Path, "url": s.url + "/" + made.Path, "revision": made.Revision, "digest": made.Digest,
			"size": made.Size, "lastUpdateTime": now,
		},
		"conditions": []any{map[string]any{
			"type": "Ready", "status": "True", "reason": "Succeeded", "message": "stored", "lastTransitionTime": now, "observedGeneration": 1,
		}},
	}})
	must(s.t, err)
	_, err = s.api.Resource(gitRepositories).Namespace(system).Patch(s.t.Context(), s.name, types.MergePatchType, raw,
		metav1.PatchOptions{}, "status")
	must(s.t, err)
	s.revision = made.Revision
}

func (s *source) kustomization(i int) string { return fmt.Sprintf("%s-%d", s.name, i) }

// kustomize creates the Kustomization of a folder of the source, which depends on
// the previous one.
func (s *source) kustomize(i int) {
	s.t.Helper()
	after := "[]"
	if i > 0 {
		after = "[{name: " + s.kustomization(i-1) + "}]"
	}
	s.create(s.t, kustomizations, object{namespace: system}, fmt.Sprintf(`
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: %s, namespace: %s}
spec:
  interval: %s
  retryInterval: 2s
  timeout: 5m
  path: ./%d
  prune: true
  wait: true
  dependsOn: %s
  sourceRef: {kind: GitRepository, name: %s}
`, s.kustomization(i), system, interval, i, after, s.name))
}

func (s *source) read(ctx context.Context, i int) (*unstructured.Unstructured, error) {
	return s.api.Resource(kustomizations).Namespace(system).Get(ctx, s.kustomization(i), metav1.GetOptions{})
}

// becomesReady waits until Flux reports that a folder is applied and everything in
// it is healthy.
func (s *source) becomesReady(i int, patience time.Duration) {
	s.t.Helper()
	s.eventually(s.t, patience, "waiting until Kustomization "+s.kustomization(i)+" is Ready", func(ctx context.Context) error {
		live, err := s.read(ctx, i)
		if err != nil {
			return err
		}
		revision, _, _ := unstructured.NestedString(live.Object, "status", "lastAppliedRevision")
		observed, _, _ := unstructured.NestedInt64(live.Object, "status", "observedGeneration")
		conditions, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
		for _, c := range conditions {
			if c, ok := c.(map[string]any); ok && c["type"] == "Ready" && c["status"] == "True" &&
				revision == s.revision && observed == live.GetGeneration() {
				return nil
			}
		}
		return fmt.Errorf("revision %s, want %s; conditions %v", revision, s.revision, conditions)
	})
}

// passes returns how often Flux reconciled a folder at this revision.
func (s *source) passes(ctx context.Context, i int) (int64, error) {
	live, err := s.read(ctx, i)
	if err != nil {
		return 0, err
	}
	history, _, _ := unstructured.NestedSlice(live.Object, "status", "history")
	if len(history) == 0 {
		return 0, fmt.Errorf("the Kustomization has no history: %v", live.Object["status"])
	}
	passes, _, err := unstructured.NestedInt64(history[0].(map[string]any), "totalReconciliations")
	return passes, err
}

// restsAt checks that Flux reconciles objects three times without changing any of
// them.
func (s *source) restsAt(objects []object) {
	s.t.Helper()
	for i, obj := range objects {
		before, err := s.get(s.t.Context(), obj)
		must(s.t, err)
		first, err := s.passes(s.t.Context(), i)
		must(s.t, err)
		s.eventually(s.t, time.Minute, "waiting until Flux looked three times at "+obj.name, func(ctx context.Context) error {
			passes, err := s.passes(ctx, i)
			if err == nil && passes < first+3 {
				err = fmt.Errorf("%d passes, and %d before", passes, first)
			}
			return err
		})
		after, err := s.get(s.t.Context(), obj)
		must(s.t, err)
		if after.GetGeneration() != before.GetGeneration() || lastWriteOfFlux(after) != lastWriteOfFlux(before) {
			s.t.Errorf("Flux wrote %s at rest: generation %d, then %d; %s, then %s", obj.name,
				before.GetGeneration(), after.GetGeneration(), lastWriteOfFlux(before), lastWriteOfFlux(after))
		}
	}
}

// lastWriteOfFlux is when Flux wrote an object last, as its managed fields say.
func lastWriteOfFlux(obj *unstructured.Unstructured) string {
	for _, entry := range obj.GetManagedFields() {
		if entry.Manager == "kustomize-controller" && entry.Time != nil {
			return string(entry.Operation) + " at " + entry.Time.UTC().Format(time.RFC3339)
		}
	}
	return "never"
}

// unkustomize deletes a Kustomization, and with it all objects that it manages.
func (s *source) unkustomize(i int, patience time.Duration) {
	s.t.Helper()
	must(s.t, s.api.Resource(kustomizations).Namespace(system).Delete(s.t.Context(), s.kustomization(i), metav1.DeleteOptions{}))
	s.eventually(s.t, patience, "waiting until Kustomization "+s.kustomization(i)+" is gone", func(ctx context.Context) error {
		live, err := s.read(ctx, i)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("it is still there: %v", live.Object["status"])
	})
}
