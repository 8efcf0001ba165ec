package coderd_test

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// evaluation checks that the parameters depend on the values.
func (c *contract) evaluation(t *testing.T) {
	ctx, id := t.Context(), c.imported.ID
	owner := must[coderd.User](t)(c.admin.UserByName(ctx, c.member)).ID
	evaluate := func(values map[string]string) []coderd.VersionParameter {
		return must[[]coderd.VersionParameter](t)(c.admin.EvaluateParameters(ctx, id, owner, values))
	}
	stored := must[[]coderd.VersionParameter](t)(c.admin.VersionParameters(ctx, id))
	if diff := cmp.Diff(stored, evaluate(map[string]string{"note": "quiet", "unknown": "x"}), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("with the default region (-stored +evaluated):\n%s", diff)
	}
	for name, tc := range map[string]struct {
		values   map[string]string
		problems []string
	}{
		"defaults":            {nil, []string{"note"}},
		"condition":           {map[string]string{"note": "quiet", "region": "us"}, []string{"speed"}},
		"everything":          {map[string]string{"note": "quiet", "region": "us", "speed": "high"}, nil},
		"condition not met":   {map[string]string{"note": "quiet", "speed": "high"}, nil},
		"values out of range": {map[string]string{"note": "LOUD", "region": "mars", "size": "99"}, []string{"note", "region", "size"}},
	} {
		var got []string
		exists := false
		for _, p := range evaluate(tc.values) {
			if p.Problem != "" {
				got = append(got, p.Name)
			}
			exists = exists || p.Name == "speed"
		}
		if diff := cmp.Diff(tc.problems, got); diff != "" || exists != (tc.values["region"] == "us") {
			t.Errorf("%s: speed exists: %t, problems (-want +got):\n%s", name, exists, diff)
		}
	}
	_, err := c.admin.EvaluateParameters(ctx, uuid.New(), owner, nil)
	expect(t, err, refusal{http.StatusNotFound, notFound, nil})
	_, err = c.admin.EvaluateParameters(ctx, id, uuid.New(), nil)
	expect(t, err, refusal{http.StatusNotFound, "Unable to validate parameters", nil})
}

// parameters checks which values a workspace gets, and which are refused.
func (c *contract) parameters(t *testing.T) {
	ctx := t.Context()
	wanted := coderd.NewWorkspace{Name: "asking-" + c.suffix, TemplateID: c.asking.ID}
	_, err := c.admin.CreateWorkspace(ctx, c.member, wanted)
	expect(t, err, refusal{http.StatusBadRequest, "Unable to validate parameters", []string{"note"}})
	wanted.Parameters = []coderd.Parameter{{Name: "size", Value: "99"}, {Name: "region", Value: "mars"}, {Name: "note", Value: "LOUD"}}
	_, err = c.admin.CreateWorkspace(ctx, c.member, wanted)
	expect(t, err, refusal{http.StatusBadRequest, "Unable to validate parameters", []string{"note", "region", "size"}})
	wanted.AutomaticUpdates = "sometimes"
	_, err = c.admin.CreateWorkspace(ctx, c.member, wanted)
	expect(t, err, refusal{http.StatusBadRequest, "Invalid Workspace Automatic Updates setting.", []string{"automatic_updates"}})

	wanted.AutomaticUpdates = "always"
	wanted.Parameters = []coderd.Parameter{{Name: "note", Value: "quiet"}, {Name: "once", Value: "yes"}, {Name: "unknown", Value: "x"}}
	w := must[coderd.Workspace](t)(c.admin.CreateWorkspace(ctx, c.member, wanted))
	if w.AutomaticUpdates != "always" || w.OwnerID == uuid.Nil || w.OrganizationID != c.org.ID || w.TemplateActiveVersionID != c.imported.ID {
		t.Errorf("workspace: %+v", w)
	}
	c.workspace = w
	w = c.becomes(t, "running")
	if b := w.LatestBuild; b.Reason != "initiator" || b.TemplateVersionName != "one" || b.PresetID != uuid.Nil {
		t.Errorf("first build: %+v", b)
	}
	c.values(t, w.LatestBuild.ID, "note=quiet", "once=yes", "region=eu", "size=2")

	build := func(request coderd.BuildRequest) (coderd.Build, error) {
		request.Transition = coderd.TransitionStart
		return c.admin.Build(ctx, w.ID, request)
	}
	_, err = build(coderd.BuildRequest{Parameters: []coderd.Parameter{{Name: "region", Value: "us"}, {Name: "size", Value: "0"}}})
	expect(t, err, refusal{http.StatusBadRequest, "Unable to validate parameters", []string{"region", "size", "speed"}})
	_, err = build(coderd.BuildRequest{Orphan: true})
	expect(t, err, refusal{http.StatusBadRequest, "Orphan is only permitted when deleting a workspace.", nil})
	_, err = build(coderd.BuildRequest{TemplateVersionID: c.version.ID})
	expect(t, err, refusal{http.StatusBadRequest, "template version doesn't match template", nil})

	ok(t, c.admin.SetDormant(ctx, w.ID, true))
	ok(t, c.admin.SetDormant(ctx, w.ID, true))
	if asleep := c.becomes(t, "running"); !asleep.Dormant || asleep.DormantAt == nil || asleep.DeletingAt != nil {
		t.Errorf("a workspace that was put to sleep: %+v", asleep)
	}
	started := must[coderd.Build](t)(build(coderd.BuildRequest{Wake: true, PresetID: c.preset.ID, Parameters: []coderd.Parameter{{Name: "size", Value: "3"}}}))
	if started.Number != 2 || started.Status != "pending" || started.PresetID != c.preset.ID {
		t.Errorf("build of a preset: %+v", started)
	}
	jobs := must[[]coderd.Job](t)(c.admin.ActiveJobs(ctx, c.org.ID))
	again := must[coderd.Workspace](t)(c.admin.Workspace(ctx, w.ID))
	if again.LatestBuild.Status != "running" && !slices.ContainsFunc(jobs, func(j coderd.Job) bool { return j.Workspace == w.ID && j.Active }) {
		t.Errorf("active jobs: %+v, want workspace %s", jobs, w.ID)
	}
	if w = c.becomes(t, "running"); w.Dormant || w.DormantAt != nil {
		t.Errorf("a start did not wake the workspace: %+v", w)
	}
	// Others may build meanwhile.
	newest := must[[]coderd.Job](t)(c.admin.NewestJobs(ctx, c.org.ID, 50))
	if i := slices.IndexFunc(newest, func(j coderd.Job) bool { return j.Workspace == w.ID }); i < 0 || newest[i].Active || newest[i].Status != "succeeded" {
		t.Errorf("newest jobs after the build of workspace %s: %+v", w.ID, newest)
	}
	if some := must[[]coderd.Job](t)(c.admin.NewestJobs(ctx, c.org.ID, 1)); len(some) != 1 {
		t.Errorf("at most one job: %+v", some)
	}
	c.values(t, started.ID, "note=large", "once=no", "region=eu", "size=8")
	if read := must[coderd.Build](t)(c.admin.WorkspaceBuildByNumber(ctx, w, 2)); read.ID != started.ID || read.Status != "running" {
		t.Errorf("build: %+v", read)
	}
	if read := must[coderd.Build](t)(c.admin.WorkspaceBuildByNumber(ctx, w, 1)); read.Number != 1 || read.ID == started.ID {
		t.Errorf("first build: %+v", read)
	}
	if _, err := c.admin.WorkspaceBuildByNumber(ctx, w, 99); !coderd.IsNotFound(err) {
		t.Errorf("a build that does not exist: %v", err)
	}
	_, err = c.admin.BuildParameters(ctx, uuid.New())
	expect(t, err, refusal{http.StatusNotFound, notFound, nil})
	c.settings(t)
}

func (c *contract) values(t *testing.T, build uuid.UUID, want ...string) {
	t.Helper()
	var got []string
	for _, p := range must[[]coderd.Parameter](t)(c.admin.BuildParameters(t.Context(), build)) {
		got = append(got, p.Name+"="+p.Value)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parameters (-want +got):\n%s", diff)
	}
}

// settings checks the other settings of a workspace, and classic parameters.
func (c *contract) settings(t *testing.T) {
	ctx, id := t.Context(), c.workspace.ID
	ok(t, c.admin.SetDormant(ctx, id, true))
	ok(t, c.admin.SetDormant(ctx, id, false))
	ok(t, c.admin.SetAutomaticUpdates(ctx, id, "never"))
	if w := must[coderd.Workspace](t)(c.admin.Workspace(ctx, id)); w.AutomaticUpdates != "never" || w.Dormant {
		t.Errorf("settings: %+v", w)
	}
	expect(t, c.admin.SetAutomaticUpdates(ctx, id, "maybe"), refusal{http.StatusBadRequest, "Invalid request", []string{"automatic_updates"}})
	expect(t, c.admin.SetDormant(ctx, uuid.New(), true), refusal{http.StatusNotFound, notFound, nil})

	yes := true
	_ = must[coderd.Template](t)(c.admin.UpdateTemplate(ctx, c.asking.ID, coderd.TemplateEdit{UseClassicParameterFlow: &yes}))
	for _, wrong := range []coderd.Parameter{{Name: "size", Value: "99"}, {Name: "region", Value: "us"}, {Name: "note", Value: "LOUD"}} {
		_, err := c.admin.Build(ctx, id, coderd.BuildRequest{Transition: coderd.TransitionStart, Parameters: []coderd.Parameter{wrong}})
		expect(t, err, refusal{http.StatusBadRequest, `Unable to validate parameter "` + wrong.Name + `"`, nil})
	}
	stopped := must[coderd.Build](t)(c.admin.Build(ctx, id, coderd.BuildRequest{Transition: coderd.TransitionStop}))
	c.logs(t, stopped.ID)
	c.becomes(t, "stopped")
	c.pages(t)
	ok(t, transit(ctx, c.admin, id, coderd.TransitionDelete))
	polltest.Eventually(t, "the workspace to be gone", func() bool {
		_, err := c.admin.Workspace(ctx, id)
		return coderd.IsNotFound(err)
	})
	if gone := must[[]coderd.Workspace](t)(c.admin.WorkspacesByID(ctx, []uuid.UUID{id})); len(gone) != 0 {
		t.Errorf("a deleted workspace is among %+v", gone)
	}
}

// logs checks that following a log returns the same lines as reading it afterwards.
func (c *contract) logs(t *testing.T, build uuid.UUID) {
	followed := c.allLines(t, build, 0, true)
	read := c.allLines(t, build, 0, false)
	if diff := cmp.Diff(read, followed); diff != "" {
		t.Errorf("log (-read +followed):\n%s", diff)
	}
	if len(read) < 2 {
		t.Fatalf("log: %+v", read)
	}
	for _, line := range read {
		if line.ID == 0 || line.Stage == "" || line.Level == "" || line.Source == "" || line.CreatedAt.IsZero() {
			t.Errorf("line: %+v", line)
		}
	}
	if rest := c.allLines(t, build, read[0].ID, false); len(rest) != len(read)-1 {
		t.Errorf("%d of %d lines after the first", len(rest), len(read))
	}
	if rest := c.allLines(t, build, read[len(read)-1].ID, true); len(rest) != 0 {
		t.Errorf("%d lines after the last", len(rest))
	}
	for _, follow := range []bool{false, true} {
		_, err := c.admin.BuildLogs(t.Context(), uuid.New(), 0, follow)
		expect(t, err, refusal{http.StatusNotFound, notFound, nil})
		_, err = c.admin.VersionLogs(t.Context(), uuid.New(), 0, follow)
		expect(t, err, refusal{http.StatusNotFound, notFound, nil})
	}
	version := must[*coderd.LogStream](t)(c.admin.VersionLogs(t.Context(), c.imported.ID, 0, true))
	if lines := drain(t, version); len(lines) == 0 {
		t.Error("the import has no log")
	}
}

func (c *contract) allLines(t *testing.T, build uuid.UUID, after int64, follow bool) []coderd.LogLine {
	t.Helper()
	return drain(t, must[*coderd.LogStream](t)(c.admin.BuildLogs(t.Context(), build, after, follow)))
}

func drain(t *testing.T, stream *coderd.LogStream) []coderd.LogLine {
	t.Helper()
	defer func() { _ = stream.Close() }()
	var out []coderd.LogLine
	for {
		line, err := stream.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return out
		}
		ok(t, err)
		out = append(out, line)
	}
}

// pages checks how workspaces are listed.
func (c *contract) pages(t *testing.T) {
	ctx := t.Context()
	count := must[int](t)(c.admin.WorkspaceCount(ctx))
	all := must[coderd.WorkspacePage](t)(c.admin.WorkspacePage(ctx, 0, coderd.MaxWorkspacePage))
	if count < 1 || all.Count != count || len(all.Workspaces) != count {
		t.Errorf("%d workspaces counted, %d and %d on a page", count, all.Count, len(all.Workspaces))
	}
	beyond := must[coderd.WorkspacePage](t)(c.admin.WorkspacePage(ctx, count, 1))
	if len(beyond.Workspaces) != 0 || beyond.Count != count {
		t.Errorf("behind the last page: %+v", beyond)
	}
	first := must[coderd.WorkspacePage](t)(c.admin.WorkspacePage(ctx, 0, 1))
	if len(first.Workspaces) != 1 || first.Count != count || first.Workspaces[0].ID != all.Workspaces[0].ID {
		t.Errorf("first page: %+v", first)
	}
	one := must[coderd.Workspace](t)(c.admin.Workspace(ctx, c.workspace.ID))
	some := must[[]coderd.Workspace](t)(c.admin.WorkspacesByID(ctx, []uuid.UUID{uuid.New(), c.workspace.ID}))
	if diff := cmp.Diff([]coderd.Workspace{one}, some); diff != "" {
		t.Errorf("workspaces by id (-want +got):\n%s", diff)
	}
	for query, want := range map[string]bool{
		"owner:" + one.OwnerName: true,
		"owner:nobody":           false,
		"organization:" + one.OrganizationName + " template:" + one.TemplateName: true,
		"organization:" + one.OrganizationName + " template:nothing":             false,
	} {
		if has := must[bool](t)(c.admin.HasWorkspaces(ctx, query)); has != want {
			t.Errorf("there are workspaces with %s: %t, want %t", query, has, want)
		}
	}
}
