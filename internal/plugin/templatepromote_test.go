package plugin

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	idOne = "11111111-0000-0000-0000-000000000001"
	idTwo = "22222222-0000-0000-0000-000000000002"
)

// withHistory returns an API in which coder.hello has version two active, and one before it. promoted receives the bodies that
// are sent to the subresource promote.
func withHistory(t *testing.T, promoted *[]fields) *fakeAPI {
	t.Helper()
	api := sampleAPI(t)
	api.setStatus(templates, "coder.hello", fields{
		"activeVersionID": idTwo,
		"history": []any{
			fields{"versionID": idTwo, "versionName": "two", "since": "2026-03-01T10:00:00Z", "by": "ada"},
			fields{"versionID": idOne, "versionName": "one"},
		},
	})
	api.answer("POST "+helloPath+"/promote", func(w http.ResponseWriter, r *http.Request) {
		var body fields
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		delete(body, "metadata")
		*promoted = append(*promoted, body)
		respond(w, http.StatusCreated, fields{"metadata": fields{"name": "coder.hello", "namespace": "coder"}})
	})
	return api
}

func TestTemplatePromote(t *testing.T) {
	candidate := func(c fields) fields { return fields{"candidate": c} }
	built := candidate(fields{"id": idOne, "name": "one", "status": "succeeded"})
	body := func(version string) []fields {
		return []fields{{"apiVersion": "aggregation.coder.com/v1alpha1", "kind": "CoderTemplatePromotion", "versionID": version, "activeVersionID": idTwo}}
	}
	for line, c := range map[string]struct {
		status fields
		want   answer
		bodies []fields
		writes string
	}{
		"promote hello":                    {built, answer{0, "codertemplate.aggregation.coder.com/coder.hello promoted\n", ""}, body(idOne), "POST " + helloPath + "/promote?fieldManager=kubectl-coder"},
		"promote hello --dry-run":          {built, answer{0, "coder.hello promoted (server dry run)\n", ""}, body(idOne), "POST " + helloPath + "/promote?dryRun=All&fieldManager=kubectl-coder"},
		"promote coder.hello -o name":      {built, answer{0, "codertemplate.aggregation.coder.com/coder.hello\n", ""}, body(idOne), "POST " + helloPath + "/promote?fieldManager=kubectl-coder"},
		"promote hello --version three":    {nil, answer{0, "coder.hello promoted\n", ""}, body("v-three"), "POST " + helloPath + "/promote?fieldManager=kubectl-coder"},
		"promote hello --version " + idOne: {nil, answer{0, "coder.hello promoted\n", ""}, body(idOne), "POST " + helloPath + "/promote?fieldManager=kubectl-coder"},
		"promote hello --version four":     {nil, answer{1, "", `has no version "four"`}, nil, ""},
		"promote coder.hello":              {nil, answer{1, "", "template coder.hello has no candidate"}, nil, ""},
		"promote hello -o json":            {candidate(fields{"name": "one", "error": "no\x1b"}), answer{1, "", "the candidate one of template coder.hello does not exist in Coder yet: no\n"}, nil, ""},
		"promote":                          {nil, answer{2, "", "give the name of one template"}, nil, ""},
		"rollback hello":                   {built, answer{0, "coder.hello rolled back\n", ""}, body(idOne), "POST " + helloPath + "/promote?fieldManager=kubectl-coder"},
		"rollback hello --dry-run":         {built, answer{0, "coder.hello rolled back (server dry run)\n", ""}, body(idOne), "POST " + helloPath + "/promote?dryRun=All&fieldManager=kubectl-coder"},
		"rollback coder.hello":             {fields{"history": []any{fields{"versionID": idTwo, "versionName": "two"}}}, answer{1, "", "has no version before the active one"}, nil, ""},
	} {
		t.Run(line, func(t *testing.T) {
			var promoted []fields
			api := withHistory(t, &promoted)
			api.setStatus(templates, "coder.hello", c.status)
			api.answer("GET "+inCoder+"/codertemplateversions", func(w http.ResponseWriter, _ *http.Request) {
				respond(w, http.StatusOK, versionsOfHello(fields{"id": "v-three", "versionName": "three"}, fields{"id": "v-four", "versionName": idOne}, fields{"id": idOne, "versionName": "one"}))
			})
			runEach(t, api, map[string]answer{"template " + line: c.want})
			if diff := cmp.Diff(c.bodies, promoted); diff != "" {
				t.Errorf("the body (-want +got):\n%s", diff)
			}
			if writes := append(api.writes, ""); writes[0] != c.writes {
				t.Errorf("the writes are %q, want %q", writes, c.writes)
			}
		})
	}
	api := sampleAPI(t)
	api.setStatus(templates, "coder.hello", built)
	api.answer("POST "+helloPath+"/promote", refuse(http.StatusConflict, "Conflict", "version x is active now"))
	runEach(t, api, map[string]answer{"template promote hello": {1, "", "of template coder.hello active: version x is active now"}})
}

func TestTemplateHistory(t *testing.T) {
	var promoted []fields
	api := withHistory(t, &promoted)
	api.setStatus(templates, "coder.hello", fields{"candidate": fields{"id": "v-three", "name": "three", "status": "succeeded"}})
	got := newHarness().run(t, api, "-n", "coder", "template", "history", "hello")
	want := `VERSION   STATE                  ACTIVE SINCE           BY    ID
two       active                 2026-03-01T10:00:00Z   ada   ` + idTwo + `
three     candidate, succeeded   -                      -     v-three
one       -                      -                      -     ` + idOne + "\n"
	if diff := cmp.Diff(want, got.out); diff != "" || got.code != 0 {
		t.Errorf("exit code %d, and the history (-want +got):\n%s", got.code, diff)
	}
	runEach(t, api, map[string]answer{
		"template history hello -o yaml": {0, "candidate:\n  id: v-three\n", ""},
		"template history nobody":        {1, "", "not found"},
	})
}

// TestTestsOfTheCandidate: history and status show them.
func TestTestsOfTheCandidate(t *testing.T) {
	var promoted []fields
	api := withHistory(t, &promoted)
	test := func(name, phase string) fields {
		return fields{"name": name, "testName": "hello-" + name, "phase": phase}
	}
	is := func(tests ...any) {
		api.setStatus(templates, "coder.hello", fields{"candidate": fields{"id": "v-three", "name": "three", "status": "succeeded", "tests": tests}})
	}
	is(test("smoke", "Succeeded"), test("large", "Running"))
	runEach(t, api, map[string]answer{"template history hello": {0, "candidate, 1 of 2 tests succeeded", ""}})
	is(test("smoke", "Succeeded"), test("large", "Failed"))
	runEach(t, api, map[string]answer{"template history hello": {0, "candidate, test large failed", ""}})
	api.setStatus(templates, "coder.hello", fields{"conditions": []any{
		condition("Ready", "False", "TestsFailed", `test "large" of version "three" failed`), condition("Stalled", "True", "TestsFailed", ""),
	}})
	got := newHarness().run(t, api, "-n", "coder", "status", "--installation=false")
	if got.code != 4 || !strings.Contains(got.out, `test "large" of version "three" failed`) || !strings.Contains(got.out, "kubectl describe -n coder ctt/hello-large") {
		t.Errorf("%+v", got)
	}
}
