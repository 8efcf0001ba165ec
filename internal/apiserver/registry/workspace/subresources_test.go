package workspace

import (
	"context"
	"encoding/json"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

func deleteBuild() coderd.BuildRequest {
	return coderd.BuildRequest{Transition: coderd.TransitionDelete}
}

// store implements Store on the log of a fixture.
type store struct{ w *fixture }

func (s store) Get(_ context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	if ws := s.w.object(name); ws != nil {
		return ws.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(resource, name)
}

func (s store) Update(
	ctx context.Context, name string, info rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc, _ rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	current := s.w.object(name)
	if current == nil {
		return nil, false, apierrors.NewNotFound(resource, name)
	}
	if p := info.Preconditions(); p != nil && p.UID != nil && *p.UID != current.UID {
		return nil, false, apierrors.NewConflict(resource, name, nil)
	}
	updated, err := info.UpdatedObject(ctx, current)
	if err != nil {
		return nil, false, err
	}
	wanted := updated.(*aggregationv1alpha1.CoderWorkspace)
	if wanted.ResourceVersion != current.ResourceVersion {
		return nil, false, apierrors.NewConflict(resource, name, nil)
	}
	if len(options.DryRun) > 0 {
		strategy{}.PrepareForUpdate(ctx, wanted, current)
		return wanted, false, nil
	}
	ws, err := s.w.update(ctx, name, func(ws *aggregationv1alpha1.CoderWorkspace) { *ws = *wanted })
	return ws, false, err
}

func newStored(t *testing.T, options ...coderdtest.Option) (*fixture, map[string]rest.Storage, context.Context) {
	t.Helper()
	w := newFixture(t, options...)
	w.coder.AddWorkspace("ada", w.template, "dev")
	w.mirror()
	return w, w.kind.Subresources(store{w}, nil), request.WithNamespace(t.Context(), "team")
}

func do(t *testing.T, subresource rest.Storage, ctx context.Context, dryRun ...string) (*aggregationv1alpha1.CoderWorkspace, error) {
	t.Helper()
	out, err := subresource.(rest.NamedCreater).Create(ctx, devName, subresource.New(), nil, &metav1.CreateOptions{DryRun: dryRun})
	if err != nil {
		return nil, err
	}
	return out.(*aggregationv1alpha1.CoderWorkspace), nil
}

func TestActions(t *testing.T) {
	w, sub, ctx := newStored(t)
	for _, step := range []struct{ action, builds string }{
		{"start", "start"}, {"stop", "start stop"}, {"stop", "start stop"}, {"start", "start stop start"},
		{"restart", "start stop start stop start"}, {"stop", "start stop start stop start stop"},
		{"restart", "start stop start stop start stop start"},
	} {
		ws, err := do(t, sub[step.action], ctx)
		w.must(err)
		if len(ws.Annotations) > 0 || *ws.Spec.Running != (step.action != "stop") {
			t.Errorf("%s answers %+v %+v", step.action, ws.ObjectMeta, ws.Spec)
		}
		w.mirror()
		if got := w.transitions(ws); got != step.builds {
			t.Fatalf("after %s: builds %q, want %q", step.action, got, step.builds)
		}
	}
	if _, err := sub["start"].(rest.NamedCreater).Create(ctx, "coder.ada.none", sub["start"].New(), nil, &metav1.CreateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("of one that is not there: %v", err)
	}
	named := &aggregationv1alpha1.CoderWorkspaceAction{ObjectMeta: metav1.ObjectMeta{Name: "another"}}
	if _, err := sub["start"].(rest.NamedCreater).Create(ctx, devName, named, nil, &metav1.CreateOptions{}); !apierrors.IsBadRequest(err) {
		t.Errorf("with another name in the body: %v", err)
	}
}

func TestActionsWhileItBuilds(t *testing.T) {
	w, sub, ctx := newStored(t, coderdtest.WithManualBuilds())
	ws, err := do(t, sub["restart"], ctx)
	w.must(err)
	if conditionOf(ws, "Synced") != "False ChangeWaits" || !*ws.Spec.Running {
		t.Errorf("%+v", ws)
	}
	_, err = do(t, sub["restart"], ctx)
	w.must(err)
	w.must(w.drive())
	if got := w.transitions(ws); got != "start stop start" {
		t.Errorf("two restarts at once: builds %s", got)
	}
	_, err = do(t, sub["restart"], ctx)
	w.must(err)
	_, err = do(t, sub["stop"], ctx)
	w.must(err)
	w.must(w.drive())
	if got := w.transitions(ws); got != "start stop start stop" {
		t.Errorf("a restart that is called off: builds %s", got)
	}
}

func TestStartAgainWhatFailed(t *testing.T) {
	w, sub, ctx := newStored(t)
	w.coder.SetBuildResult("dev", coderdtest.BuildResult{Error: "no room"})
	_, err := do(t, sub["restart"], ctx)
	w.must(err)
	w.mirror()
	ws := w.object(devName)
	if got := w.transitions(ws); got != "start stop" || conditionOf(ws, "Stalled") != "True BuildFailed" {
		t.Errorf("a restart whose stop fails: builds %s, %s", got, conditionOf(ws, "Stalled"))
	}
	w.coder.SetBuildResult("dev", coderdtest.BuildResult{})
	_, err = do(t, sub["stop"], ctx)
	w.must(err)
	w.mirror()
	if ws = w.object(devName); w.transitions(ws) != "start stop stop" || conditionOf(ws, "Ready") != "True Stopped" {
		t.Errorf("builds %s", w.transitions(ws))
	}
}

func TestStartOfADormantWorkspace(t *testing.T) {
	for name, start := range map[string]func(context.Context, map[string]rest.Storage) error{
		"start": func(ctx context.Context, sub map[string]rest.Storage) error {
			_, err := do(t, sub["start"], ctx)
			return err
		},
		"restart": func(ctx context.Context, sub map[string]rest.Storage) error {
			_, err := do(t, sub["restart"], ctx)
			return err
		},
		"scale": func(ctx context.Context, sub map[string]rest.Storage) error {
			_, _, err := sub["scale"].(rest.Updater).Update(ctx, devName, replicas(1), nil, nil, false, &metav1.UpdateOptions{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, sub, ctx := newStored(t)
			w.mustUpdate(devName, func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Spec.Dormant = ptr.To(true) })
			w.mirror()
			w.must(start(ctx, sub))
			w.mirror()
			if ws := w.object(devName); *ws.Spec.Dormant || !*ws.Spec.Running || conditionOf(ws, "Ready") != "True Running" {
				t.Errorf("%+v %+v", ws.Spec, ws.Status)
			}
			_, err := do(t, sub["stop"], ctx)
			w.must(err)
			w.mirror()
			if ws := w.object(devName); *ws.Spec.Dormant || *ws.Spec.Running {
				t.Errorf("after a stop: %+v", ws.Spec)
			}
		})
	}
}

func TestDryRunsOfSubresources(t *testing.T) {
	w, sub, ctx := newStored(t)
	w.coder.ResetRequests()
	for _, name := range []string{"start", "stop", "restart"} {
		ws, err := do(t, sub[name], ctx, metav1.DryRunAll)
		w.must(err)
		if *ws.Spec.Running != (name != "stop") || len(ws.Annotations) > 0 {
			t.Errorf("%s: %+v", name, ws.Spec)
		}
	}
	if _, _, err := sub["scale"].(rest.Updater).Update(ctx, devName, replicas(0), nil, nil, false, &metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Error(err)
	}
	if got := w.coder.Requests(); len(got) > 0 {
		t.Errorf("requests %v", got)
	}
}

// replicas returns the update that kubectl scale sends.
func replicas(n int32) rest.UpdatedObjectInfo {
	return rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		scale := old.DeepCopyObject().(*autoscalingv1.Scale)
		scale.Spec.Replicas = n
		return scale, nil
	})
}

func TestScale(t *testing.T) {
	w, sub, ctx := newStored(t)
	scale := sub["scale"].(rest.Patcher)
	for _, n := range []int32{0, 1} {
		out, _, err := scale.Update(ctx, devName, replicas(n), nil, nil, false, &metav1.UpdateOptions{})
		w.must(err)
		if got := out.(*autoscalingv1.Scale); got.Spec.Replicas != n || got.Name != devName || got.ResourceVersion == "" {
			t.Errorf("%+v", got)
		}
		w.mirror()
		out, err = scale.Get(ctx, devName, &metav1.GetOptions{})
		w.must(err)
		if got := out.(*autoscalingv1.Scale); got.Spec.Replicas != n || got.Status.Replicas != n {
			t.Errorf("%+v", got)
		}
	}
	if got := w.transitions(w.object(devName)); got != "start stop start" {
		t.Errorf("builds %s", got)
	}
	for _, n := range []int32{2, -1} {
		if _, _, err := scale.Update(ctx, devName, replicas(n), nil, nil, false, &metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("%d replicas: %v", n, err)
		}
	}
	old := rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		scale := old.DeepCopyObject().(*autoscalingv1.Scale)
		scale.ResourceVersion = "0"
		return scale, nil
	})
	if _, _, err := scale.Update(ctx, devName, old, nil, nil, false, &metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("of an old revision: %v", err)
	}
}

func readLog(t *testing.T, sub rest.Storage, ctx context.Context, query string) (string, error) {
	t.Helper()
	values, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := registry.NewScheme(AddToScheme)
	logs := sub.(rest.GetterWithOptions)
	options, _, _ := logs.NewGetOptions()
	if err := runtime.NewParameterCodec(s).DecodeParameters(values, aggregationv1alpha1.GroupVersion, options); err != nil {
		return "", err
	}
	out, err := logs.Get(ctx, devName, options)
	if err != nil {
		return "", err
	}
	stream, _, kind, err := out.(rest.ResourceStreamer).InputStream(ctx, "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	text, err := io.ReadAll(stream)
	if !strings.HasPrefix(kind, "text/plain") {
		t.Errorf("media type %s", kind)
	}
	return string(text), err
}

func TestLog(t *testing.T) {
	w, sub, ctx := newStored(t)
	build := uuid.MustParse(w.object(devName).Status.LatestBuildID)
	w.coder.WriteLog(build, "Planning infrastructure", "one", "two\nthree")
	for _, query := range []string{"", "follow=true", "build=1"} {
		got, err := readLog(t, sub["log"], ctx, query)
		w.must(err)
		var words []string
		for line := range strings.Lines(got) {
			_, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			words = append(words, text)
		}
		want := []string{"[Planning infrastructure] one", "[Planning infrastructure] two", "[Planning infrastructure] three"}
		if diff := cmp.Diff(want, words); diff != "" {
			t.Errorf("?%s (-want +got):\n%s", query, diff)
		}
	}
	// The log of an earlier build stays available.
	w.coder.BuildWorkspace(uuid.MustParse(w.object(devName).Status.ID), "stop")
	if got, err := readLog(t, sub["log"], ctx, "build=1"); err != nil || !strings.Contains(got, "three") {
		t.Errorf("the log of the build before: %q, %v", got, err)
	}
	for _, query := range []string{"build=7", "build=-1", "build=x", "after=x", "follow=maybe"} {
		if _, err := readLog(t, sub["log"], ctx, query); !apierrors.IsBadRequest(err) {
			t.Errorf("?%s: %v, want 400", query, err)
		}
	}
}

func TestManagedFieldsOfScale(t *testing.T) {
	w, sub, ctx := newStored(t)
	w.mustUpdate(devName, func(ws *aggregationv1alpha1.CoderWorkspace) {
		ws.ManagedFields = append(ws.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: "gitops", Operation: metav1.ManagedFieldsOperationApply, APIVersion: aggregationv1alpha1.GroupVersion.String(),
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:running":{}}}`),
		})
	})
	mine := rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		scale := old.DeepCopyObject().(*autoscalingv1.Scale)
		scale.Spec.Replicas = 0
		scale.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: "autoscaler", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: autoscalingv1.SchemeGroupVersion.String(),
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`),
		}}
		return scale, nil
	})
	_, _, err := sub["scale"].(rest.Updater).Update(ctx, devName, mine, nil, nil, false, &metav1.UpdateOptions{})
	w.must(err)
	w.mirror()
	entries, err := json.Marshal(w.object(devName).ManagedFields)
	w.must(err)
	if got := string(entries); !strings.Contains(got, `"fieldsV1":{"f:spec":{"f:running":{}}}`) || !strings.Contains(got, "autoscaler") || strings.Contains(got, "gitops") {
		t.Errorf("%s", got)
	}
}
