package workspace

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

// conditionalFiles has parameters that depend on others: model exists and is required only with a
// GPU, note only without, and the options of size depend on the GPU. hint exists only in a build
// with the ephemeral parameter once.
const conditionalFiles = `
data "coder_parameter" "gpu" {
  name    = "gpu"
  type    = "bool"
  default = "false"
  mutable = true
}
data "coder_parameter" "model" {
  count   = data.coder_parameter.gpu.value == "true" ? 1 : 0
  name    = "model"
  mutable = true
}
data "coder_parameter" "note" {
  count   = data.coder_parameter.gpu.value == "true" ? 0 : 1
  name    = "note"
  mutable = true
}
data "coder_parameter" "small" {
  count   = data.coder_parameter.gpu.value == "true" ? 0 : 1
  name    = "size"
  default = "1"
  mutable = true
  option {
    name  = "One"
    value = "1"
  }
  option {
    name  = "Two"
    value = "2"
  }
}
data "coder_parameter" "large" {
  count   = data.coder_parameter.gpu.value == "true" ? 1 : 0
  name    = "size"
  default = "8"
  mutable = true
  option {
    name  = "Eight"
    value = "8"
  }
  option {
    name  = "Sixteen"
    value = "16"
  }
}
data "coder_parameter" "once" {
  name      = "once"
  default   = "no"
  mutable   = true
  ephemeral = true
}
data "coder_parameter" "hint" {
  count   = data.coder_parameter.once.value == "yes" ? 1 : 0
  name    = "hint"
  default = "none"
  mutable = true
}
`

// newConditionalFixture returns a fixture whose template has conditionalFiles.
func newConditionalFixture(t *testing.T) *fixture {
	t.Helper()
	w := newFixture(t)
	w.template = w.coder.AddTemplate("coder", "conditional", map[string]string{"main.tf": conditionalFiles})
	return w
}

// conditional sets the template and exactly these parameters, for example "gpu=true".
func conditional(parameters ...string) edit {
	return func(ws *aggregationv1alpha1.CoderWorkspace) {
		ws.Spec.TemplateName, ws.Spec.Parameters = "conditional", nil
		for _, p := range parameters {
			name, v, _ := strings.Cut(p, "=")
			parameter(name, v)(ws)
		}
	}
}

func TestConditionalParameters(t *testing.T) {
	for name, c := range map[string]struct {
		parameters []string
		at, hint   string
	}{
		"without a GPU":         {[]string{"note=x", "size=2"}, "", ""},
		"with a GPU":            {[]string{"gpu=true", "model=m", "size=16"}, "", ""},
		"condition not met":     {[]string{"note=x", "model=m"}, "spec.parameters[model]", `no such parameter with these values; it has "gpu", "note", "once", "size"`},
		"stored, but not now":   {[]string{"gpu=true", "model=m", "size=8", "note=x"}, "spec.parameters[note]", "no such parameter"},
		"option of the other":   {[]string{"gpu=true", "model=m", "size=2"}, "spec.parameters[size]", `must be one of "8", "16"`},
		"required with a GPU":   {[]string{"gpu=true", "size=8"}, "spec.parameters[model]", "Required"},
		"of the ephemeral once": {[]string{"note=x", "hint=h"}, "spec.parameters[hint]", "no such parameter"},
		"unknown":               {[]string{"gpu=true", "model=m", "size=8", "color=red"}, "spec.parameters[color]", `"model"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newConditionalFixture(t)
			_, err := w.create(newWorkspace(devName, conditional(c.parameters...)))
			if c.at != "" {
				wantInvalid(t, err, c.at, c.hint)
			} else {
				w.must(err)
			}

			changed := newConditionalFixture(t)
			_, err = changed.create(newWorkspace(devName, conditional("note=n")))
			changed.must(err)
			// Coder drops the ephemeral value after this build.
			id := changed.item(changed.object(devName)).ID
			_, err = changed.provider.connection.Client.Build(t.Context(), id, coderd.BuildRequest{
				Transition: coderd.TransitionStart, Parameters: []coderd.Parameter{{Name: "once", Value: "yes"}},
			})
			changed.must(err)
			changed.mirror()
			_, err = changed.update(t.Context(), devName, conditional(c.parameters...))
			if c.at != "" {
				wantInvalid(t, err, c.at, c.hint)
				return
			}
			changed.must(err)
			changed.mirror()
			values, err := changed.kind.valuesOf(t.Context(), changed.provider.connection, changed.item(changed.object(devName)))
			changed.must(err)
			for _, p := range c.parameters {
				if name, v, _ := strings.Cut(p, "="); values[name] != v {
					t.Errorf("values %v, want %s", values, p)
				}
			}
		})
	}
	w := newConditionalFixture(t)
	_, err := w.create(newWorkspace(devName, conditional("gpu=false")))
	wantInvalid(t, err, "spec.parameters[note]", "Required")
}

// TestKeptValueRefused checks that a change is refused if a value of the last build, which is not in
// the spec, is not valid any more. The error does not show that value.
func TestKeptValueRefused(t *testing.T) {
	w := newConditionalFixture(t)
	id := w.coder.AddWorkspace("ada", w.template, "dev")
	_, err := w.provider.connection.Client.Build(t.Context(), id, coderd.BuildRequest{
		Transition: coderd.TransitionStart, Parameters: []coderd.Parameter{{Name: "note", Value: "n"}, {Name: "size", Value: "2"}},
	})
	w.must(err)
	w.mirror()
	_, err = w.update(t.Context(), devName, all(parameter("gpu", "true"), parameter("model", "m")))
	wantInvalid(t, err, "spec.parameters[size]", "Invalid value: Value must be a valid option")
}

// TestCoderCannotEvaluate checks the list that Coder stores with the version: it applies to the
// default values.
func TestCoderCannotEvaluate(t *testing.T) {
	for name, prepare := range map[string]func(*fixture){
		"no such endpoint": func(w *fixture) {
			w.coder.Fail(coderdtest.Fault{Method: http.MethodPost, PathPrefix: "/api/v2/templateversions/", Status: http.StatusNotFound, Message: "Route not found."})
		},
		"not visible to the user": func(w *fixture) {
			w.coder.Fail(coderdtest.Fault{Method: http.MethodPost, PathPrefix: "/api/v2/templateversions/", Status: http.StatusNotFound})
		},
		"classic": func(w *fixture) {
			w.coder.PatchTemplate(t, w.template, map[string]any{"use_classic_parameter_flow": true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newConditionalFixture(t)
			prepare(w)
			_, err := w.create(newWorkspace(devName, conditional("gpu=true", "model=m")))
			wantInvalid(t, err, "spec.parameters[model]", "no such parameter")
			wantInvalid(t, err, "spec.parameters[note]", "Required")
			_, err = w.create(newWorkspace(devName, conditional("note=n", "size=2")))
			w.must(err)
			w.mirror()
			_, err = w.update(t.Context(), devName, parameter("size", "8"))
			wantInvalid(t, err, "spec.parameters[size]", `must be one of "1", "2"`)
			if n := w.coder.Requests()["POST /api/v2/templateversions/{version}/dynamic-parameters/evaluate"]; name == "classic" && n != 0 {
				t.Errorf("%d evaluations", n)
			}
		})
	}
	w := newConditionalFixture(t)
	w.coder.Fail(coderdtest.Fault{Method: http.MethodPost, PathPrefix: "/api/v2/templateversions/", Status: http.StatusBadRequest, Message: "Unable to validate parameters"})
	_, err := w.create(newWorkspace(devName, conditional("note=n")))
	wantInvalid(t, err, "spec", "Unable to validate parameters")
}

// TestEvaluationAsCaller checks that Coder evaluates the parameters as the mapped user, because the
// result may contain data of the owner.
func TestEvaluationAsCaller(t *testing.T) {
	w := newConditionalFixture(t)
	ctx := w.asAda()
	fresh := newWorkspace(devName, conditional("note=n"))
	strategy{}.PrepareForCreate(ctx, fresh)
	w.must(w.kind.CheckCreate(ctx, fresh))
	made, err := w.kind.Write(ctx, "key", nil, fresh)
	w.must(err)
	w.commit(made)
	w.mirror()
	_, err = w.update(ctx, devName, conditional("gpu=true", "model=m", "size=8"))
	w.must(err)
	var tokens []string
	evaluations := 0
	for _, r := range w.coder.Received() {
		token := r.Header.Get("Coder-Session-Token")
		switch {
		case strings.HasSuffix(r.Path, "/evaluate"):
			evaluations++
			tokens = append(tokens, token)
		case r.Method == http.MethodPost && strings.HasSuffix(r.Path, "/workspaces"):
			tokens = append(tokens, token)
		}
	}
	if len(slices.Compact(tokens)) != 1 || evaluations < 3 {
		t.Errorf("%d evaluations with the tokens %v", evaluations, tokens)
	}
}

// TestEvaluationWithDeletedToken checks that a waiting change is not refused if Coder has deleted the
// token for the evaluation meanwhile.
func TestEvaluationWithDeletedToken(t *testing.T) {
	w := newFixture(t, coderdtest.WithManualBuilds())
	w.coder.AddWorkspace("ada", w.template, "dev")
	w.mirror()
	w.mustUpdate(devName, running(false))
	_, err := w.update(w.asAda(), devName, all(running(true), parameter("size", "2")))
	w.must(err)
	w.deleteTokensOfAda()
	w.coder.FinishBuilds()
	if _, err := w.look(); !coderd.IsUnauthorized(err) {
		t.Errorf("with the deleted token: %v", err)
	}
	w.must(w.drive())
	if ws := w.object(devName); w.transitions(ws) != "start stop start" || conditionOf(ws, "Ready") != "True Running" {
		t.Errorf("builds %s: %+v", w.transitions(ws), ws.Status.Conditions)
	}
}
