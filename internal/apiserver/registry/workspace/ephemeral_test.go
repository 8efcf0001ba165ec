package workspace

import (
	"context"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/registry/rest"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

// with starts or restarts a workspace with values for ephemeral parameters.
func with(ctx context.Context, subresource rest.Storage, dryRun []string, values ...string) error {
	body := &aggregationv1alpha1.CoderWorkspaceAction{}
	for i := 0; i < len(values); i += 2 {
		body.EphemeralParameters = append(body.EphemeralParameters, aggregationv1alpha1.WorkspaceParameter{Name: values[i], Value: values[i+1]})
	}
	_, err := subresource.(rest.NamedCreater).Create(ctx, devName, body, nil, &metav1.CreateOptions{DryRun: dryRun})
	return err
}

// once returns the value of the ephemeral parameter in the newest build.
func (w *fixture) once() string {
	w.t.Helper()
	values, err := w.kind.valuesOf(w.t.Context(), w.provider.connection, w.item(w.object(devName)))
	w.must(err)
	return values["once"]
}

// TestEphemeralParameters checks that the values apply to one start, also after a stop that takes its time
// and a restart of the replica, and that a stop withdraws them.
func TestEphemeralParameters(t *testing.T) {
	w, sub, ctx := newStored(t, coderdtest.WithManualBuilds())
	w.must(w.drive())
	w.must(with(ctx, sub["restart"], nil, "once", "true"))
	w.restart()
	sub = w.kind.Subresources(store{w}, nil)
	w.must(w.drive())
	if got := w.transitions(w.object(devName)); got != "start stop start" || w.once() != "true" {
		t.Errorf("builds %q, once is %q", got, w.once())
	}
	_, err := do(t, sub["restart"], ctx)
	w.must(err)
	w.must(w.drive())
	if w.once() != "false" {
		t.Errorf("the value stays: %q", w.once())
	}
	_, err = do(t, sub["stop"], ctx)
	w.must(err)
	w.must(w.drive())
	w.must(with(ctx, sub["start"], nil, "once", "true"))
	w.must(w.drive())
	ws := w.object(devName)
	if got := w.transitions(ws); got != "start stop start stop start stop start" || w.once() != "true" || len(ws.Spec.Parameters) > 0 || len(ws.Annotations) > 0 {
		t.Errorf("builds %q, once is %q: %+v", got, w.once(), ws)
	}
	w.must(with(ctx, sub["restart"], nil, "once", "true"))
	_, err = do(t, sub["stop"], ctx)
	w.must(err)
	w.must(w.drive())
	_, err = do(t, sub["start"], ctx)
	w.must(err)
	w.must(w.drive())
	if w.once() != "false" {
		t.Errorf("after a stop that withdrew the restart once is %q", w.once())
	}
}

// TestEphemeralParametersAfterAStopInCoder checks that a restart with values starts a workspace that another user of
// Coder stopped before the replica did, as a restart without values does.
func TestEphemeralParametersAfterAStopInCoder(t *testing.T) {
	for name, values := range map[string][]string{"without values": nil, "with a value": {"once", "true"}} {
		t.Run(name, func(t *testing.T) {
			w, sub, ctx := newStored(t)
			w.coder.Fail(coderdtest.Fault{Method: http.MethodPost, PathPrefix: "/api/v2/workspaces/", Status: http.StatusBadGateway, Times: 1})
			if err := with(ctx, sub["restart"], nil, values...); err == nil {
				t.Fatal("it could be stopped")
			}
			// Another user than the operator stops it.
			w.coder.BuildWorkspace(uuid.MustParse(w.object(devName).Status.ID), "stop")
			w.must(w.drive())
			want := "false"
			if values != nil {
				want = values[1]
			}
			if got := w.transitions(w.object(devName)); got != "start stop start" || w.once() != want {
				t.Errorf("builds %q, once is %q, want %q", got, w.once(), want)
			}
		})
	}
}

// TestEphemeralParametersAreValidated checks that bad values are refused before the workspace is stopped, also in
// a dry run.
func TestEphemeralParametersAreValidated(t *testing.T) {
	for name, c := range map[string]struct {
		action, at, hint string
		values           []string
	}{
		"unknown":         {"restart", "ephemeralParameters[twice]", `"once", "region", "size"`, []string{"twice", "true"}},
		"no value of it":  {"restart", "ephemeralParameters[once]", `"true" or "false"`, []string{"once", "maybe"}},
		"kept":            {"restart", "ephemeralParameters[size]", "spec.parameters", []string{"size", "2"}},
		"two values":      {"restart", "ephemeralParameters[1].name", "Duplicate", []string{"once", "true", "once", "false"}},
		"without a name":  {"start", "ephemeralParameters[0].name", "name the parameter", []string{"", "true"}},
		"it runs already": {"start", "ephemeralParameters", "restart it", []string{"once", "true"}},
		"a stop":          {"stop", "ephemeralParameters", "only start and restart", []string{"once", "true"}},
		"a last deletion": {"orphan", "ephemeralParameters", "only start and restart", []string{"once", "true"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, sub, ctx := newStored(t)
			w.coder.ResetRequests()
			wantInvalid(t, with(ctx, sub[c.action], nil, c.values...), c.at, c.hint)
			if n := w.coder.Writes(); n > 0 {
				t.Errorf("it writes: %v", w.coder.Requests())
			}
		})
	}
	w, sub, ctx := newStored(t)
	w.must(with(ctx, sub["restart"], []string{metav1.DryRunAll}, "once", "true"))
	if diff := cmp.Diff("start", w.transitions(w.object(devName))); diff != "" {
		t.Errorf("the dry run builds (-want +got):\n%s", diff)
	}
}

// TestRefusedEphemeralParameter checks that a value that Coder refused does not prevent a later start.
func TestRefusedEphemeralParameter(t *testing.T) {
	w, sub, ctx := newStored(t)
	_, err := do(t, sub["stop"], ctx)
	w.must(err)
	w.mirror()
	earlier := change{Ephemeral: []value{{"once", "true"}}, Refused: "no"}
	if merged := (change{Force: true}).merge(&earlier); len(merged.Ephemeral) > 0 {
		t.Errorf("the refused value is sent again: %+v", merged)
	}
	if err := with(ctx, sub["start"], nil, "once", "maybe"); !apierrors.IsInvalid(err) {
		t.Errorf("the error is %v", err)
	}
	_, err = do(t, sub["start"], ctx)
	w.must(err)
	w.mirror()
	if w.once() != "false" {
		t.Errorf("once is %q", w.once())
	}
}
