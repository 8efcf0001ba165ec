package toolset

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

type nothing struct{}

func doNothing(context.Context, *Call, nothing) (nothing, error) { return nothing{}, nil }

func someTools() *Set {
	s := &Set{}
	for _, d := range []Definition{
		{Name: "list_workspaces", Toolset: Workspaces, Effect: Reads},
		{Name: "get_events", Toolset: Observation, Effect: Reads, Idempotent: true},
		{Name: "create_workspace", Toolset: Workspaces, Effect: Writes},
		{Name: "delete_workspace", Toolset: Workspaces, Effect: Destroys},
	} {
		Add(s, d, doNothing)
	}
	return s
}

func namesOf(s *Set) string {
	_, names := s.names()
	return strings.Join(names, " ")
}

func TestFilterLeavesWhatAllOptionsAgreeTo(t *testing.T) {
	tests := map[string]struct {
		options Options
		want    string
		says    string
	}{
		"nothing given":                      {Options{}, "list_workspaces get_events create_workspace delete_workspace", ""},
		"read-only":                          {Options{ReadOnly: true}, "list_workspaces get_events", ""},
		"a toolset":                          {Options{Toolsets: []string{Workspaces}}, "list_workspaces create_workspace delete_workspace", ""},
		"two toolsets":                       {Options{Toolsets: []string{Observation, Workspaces}, ReadOnly: true}, "list_workspaces get_events", ""},
		"some tools":                         {Options{Enabled: []string{"delete_workspace", "get_events"}}, "get_events delete_workspace", ""},
		"all but some":                       {Options{Disabled: []string{"delete_workspace", "get_events"}}, "list_workspaces create_workspace", ""},
		"an unknown toolset":                 {Options{Toolsets: []string{"cluster"}}, "", `there is no toolset "cluster"; there are: workspace, observe`},
		"an unknown tool":                    {Options{Enabled: []string{"exec"}}, "", `there is no tool "exec"; there are: list_workspaces, get_events, create_workspace, delete_workspace`},
		"an unknown tool that is not wanted": {Options{Disabled: []string{"exec"}}, "", `there is no tool "exec"`},
		"enabled and writes":                 {Options{ReadOnly: true, Enabled: []string{"create_workspace"}}, "", `tool "create_workspace" is enabled but cannot be offered, because it changes something and the server is read-only`},
		"enabled and disabled":               {Options{Enabled: []string{"get_events"}, Disabled: []string{"get_events"}}, "", "because it is disabled too"},
		"enabled in no toolset":              {Options{Enabled: []string{"get_events"}, Toolsets: []string{Workspaces}}, "", `its toolset "observe" is not selected`},
		"nothing left":                       {Options{Toolsets: []string{Observation}, Disabled: []string{"get_events"}}, "", "no tool is left to offer"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := someTools()
			left, err := s.Filter(tc.options)
			if tc.says != "" {
				if err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Fatalf("the error is %v, want one with %q", err, tc.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := namesOf(left); got != tc.want {
				t.Errorf("left are %s, want %s", got, tc.want)
			}
			if got := namesOf(s); got != namesOf(someTools()) {
				t.Errorf("the set itself became %s", got)
			}
		})
	}
}

func TestToolsetInsideMustBeNamed(t *testing.T) {
	s := someTools()
	Add(s, Definition{Name: "run_in_workspace", Toolset: Inside, Effect: Destroys}, doNothing)
	if left, err := s.Filter(Options{}); err != nil || strings.Contains(namesOf(left), "run_in_workspace") {
		t.Errorf("without options: %v %v", left, err)
	}
	if left, err := s.Filter(Options{Toolsets: []string{Inside}}); err != nil || namesOf(left) != "run_in_workspace" {
		t.Errorf("named: %v %v", left, err)
	}
	if _, err := s.Filter(Options{Enabled: []string{"run_in_workspace"}}); err == nil || !strings.Contains(err.Error(), "offered only if it is selected explicitly") {
		t.Errorf("enabled without its toolset: %v", err)
	}
}

func TestWhatIsFilteredOutCannotBeCalled(t *testing.T) {
	left, err := someTools().Filter(Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	session := serve(left, Env{Kube: fakeKube(t, interceptor.Funcs{})}).connect(t, modern, nil)
	list, err := session.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 2 {
		t.Errorf("offered are %v, %v; want two tools", list, err)
	}
	if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "delete_workspace"}); err == nil || !strings.Contains(err.Error(), "delete_workspace") {
		t.Errorf("a call of a tool that is not offered gives %v", err)
	}
	if _, isError := say(t, session, &mcp.CallToolParams{Name: "get_events"}); isError {
		t.Error("a tool that is offered cannot be called")
	}
}

func TestDefinitionsKeepTheirOrderAndAnnotations(t *testing.T) {
	s := someTools()
	var names []string
	for _, d := range s.Definitions() {
		names = append(names, d.Name)
	}
	if diff := cmp.Diff([]string{"list_workspaces", "get_events", "create_workspace", "delete_workspace"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	list, err := serve(s, Env{Kube: fakeKube(t, interceptor.Funcs{})}).connect(t, modern, nil).ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, tool := range list.Tools {
		raw, err := json.Marshal(tool.Annotations)
		if err != nil {
			t.Fatal(err)
		}
		got[tool.Name] = string(raw)
	}
	want := map[string]string{
		"list_workspaces":  `{"idempotentHint":false,"openWorldHint":false,"readOnlyHint":true}`,
		"get_events":       `{"idempotentHint":true,"openWorldHint":false,"readOnlyHint":true}`,
		"create_workspace": `{"destructiveHint":false,"idempotentHint":false,"openWorldHint":false,"readOnlyHint":false}`,
		"delete_workspace": `{"destructiveHint":true,"idempotentHint":false,"openWorldHint":false,"readOnlyHint":false}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTwoToolsCannotHaveOneName(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a second tool of the same name is taken")
		}
	}()
	Add(someTools(), Definition{Name: "get_events"}, doNothing)
}

func TestRequireObject(t *testing.T) {
	for want, given := range map[string][2]string{
		"":                      {"coder", "coder.ada.dev"},
		"namespace is required": {"", "x"},
		"name is required":      {"coder", ""},
		`namespace cannot be "..": it may not be '..'`:                             {"..", "x"},
		`name cannot be "x/log": it may not contain '/'`:                           {"coder", "x/log"},
		`name cannot be "../%2e": it may not contain '/', and may not contain '%'`: {"coder", "../%2e"},
	} {
		err := RequireObject(given[0], given[1])
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%q gives %v, want %q", given, err, want)
		}
	}
}
