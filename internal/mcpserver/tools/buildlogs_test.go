package tools

import (
	"context"
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

func TestGetBuildLogs(t *testing.T) {
	ws := devWorkspace("Failed")
	ws.Status.LatestBuild.Error = "no quota"
	kube := fakeKube(t, interceptor.Funcs{}, rawTexts{
		devPath + "/log?build=3": "newest\n", devPath + "/log?build=2": "older\n",
		templatePath + "/log?version=" + newID: "v2\n", templatePath + "/log?version=" + activeID: "v1\n",
		templatePath + "/log?version=old": "old\n",
	}, append(templateVersions(), ws)...)
	newest := loggedBuild{Number: 3, Transition: "start", Version: "v1", VersionID: activeID, Status: "failed", Error: "no quota"}
	for name, tt := range map[string]struct {
		in   getBuildLogsInput
		want getBuildLogsOutput
	}{
		"of the newest build":   {getBuildLogsInput{Workspace: devName}, getBuildLogsOutput{Build: newest, Logs: "newest\n"}},
		"of it by its number":   {getBuildLogsInput{Workspace: devName, Build: 3}, getBuildLogsOutput{Build: newest, Logs: "newest\n"}},
		"of an older one":       {getBuildLogsInput{Workspace: devName, Build: 2}, getBuildLogsOutput{Build: loggedBuild{Number: 2}, Logs: "older\n"}},
		"of the newest version": {getBuildLogsInput{Template: dockerName}, getBuildLogsOutput{Build: loggedBuild{Version: "v2", VersionID: newID, Status: "failed", Error: "no provider"}, Logs: "v2\n"}},
		"of a version":          {getBuildLogsInput{Template: dockerName, VersionID: activeID}, getBuildLogsOutput{Build: loggedBuild{Version: "v1", VersionID: activeID, Status: "succeeded"}, Logs: "v1\n"}},
		"of a very old version": {getBuildLogsInput{Template: dockerName, VersionID: "old"}, getBuildLogsOutput{Build: loggedBuild{VersionID: "old"}, Logs: "old\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.in.Namespace = "coder"
			out, err := getBuildLogs(t.Context(), &toolset.Call{Kube: kube}, tt.in)
			if diff := cmp.Diff(tt.want, out); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestGetBuildLogsKeepsTheNewestAndNoSecret(t *testing.T) {
	log := strings.Repeat("line\n", 1000) + "token ghp_0123456789abcdefghijABCDEFGHIJ012345\n"
	kube := fakeKube(t, interceptor.Funcs{}, rawTexts{devPath + "/log": log}, devWorkspace("Running"))
	for lines, want := range map[int]int{0: 200, 5: 5, 5000: 1001} {
		out, err := getBuildLogs(t.Context(), &toolset.Call{Kube: kube}, getBuildLogsInput{Namespace: "coder", Workspace: devName, TailLines: lines})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(out.Logs, "\n"); got != want || !strings.HasSuffix(out.Logs, "[redacted]\n") || strings.Contains(out.Logs, "0123456789") {
			t.Errorf("%d lines give %d, which end with %q", lines, got, out.Logs[max(0, len(out.Logs)-60):])
		}
		if cut := want < 1001; out.Truncated != cut || cut != (out.Message != "") {
			t.Errorf("%d lines: truncated %v, %q", lines, out.Truncated, out.Message)
		}
	}
	kube = fakeKube(t, interceptor.Funcs{}, rawTexts{devPath + "/log": strings.Repeat(strings.Repeat("x", 1023)+"\n", 2048)}, devWorkspace("Running"))
	for lines, most := range map[int]int{0: defaultLogBytes, 100_000: maxLogBytes} {
		out, err := getBuildLogs(t.Context(), &toolset.Call{Kube: kube}, getBuildLogsInput{Namespace: "coder", Workspace: devName, TailLines: lines})
		if err != nil || !out.Truncated || len(out.Logs) > most || len(out.Logs) < most-1024 {
			t.Errorf("%d lines give %d bytes, truncated %v, %v; want about %d", lines, len(out.Logs), out.Truncated, err, most)
		}
	}
}

func TestGetBuildLogsOfNothingYet(t *testing.T) {
	ws := devWorkspace("Pending")
	ws.Status.LatestBuild = nil
	kube := fakeKube(t, interceptor.Funcs{}, rawTexts{devPath + "/log?": ""}, ws)
	out, err := getBuildLogs(t.Context(), &toolset.Call{Kube: kube}, getBuildLogsInput{Namespace: "coder", Workspace: devName})
	if err != nil || out.Message == "" || out.Truncated {
		t.Errorf("the answer is %+v, %v", out, err)
	}
	_, err = getBuildLogs(t.Context(), &toolset.Call{Kube: kube}, getBuildLogsInput{Namespace: "coder", Template: dockerName})
	wantError(t, err, "template coder.docker in namespace coder has no version yet")
}

func TestGetBuildLogsSaysWhatIsWrong(t *testing.T) {
	for name, tt := range map[string]struct {
		in   getBuildLogsInput
		raw  error
		want string
	}{
		"neither":                   {getBuildLogsInput{}, nil, "name either a workspace or a template"},
		"both":                      {getBuildLogsInput{Workspace: devName, Template: dockerName}, nil, "name either a workspace or a template"},
		"a version of a workspace":  {getBuildLogsInput{Workspace: devName, VersionID: newID}, nil, "versionID is for a template"},
		"a build of a template":     {getBuildLogsInput{Template: dockerName, Build: 1}, nil, "build is for a workspace"},
		"a build below one":         {getBuildLogsInput{Workspace: devName, Build: -1}, nil, "build counts from 1"},
		"a workspace that is none":  {getBuildLogsInput{Workspace: "coder.ada.no"}, nil, `"coder.ada.no" not found`},
		"a template that is a path": {getBuildLogsInput{Template: "../secrets"}, nil, `name cannot be "../secrets"`},
		"a parent as a template":    {getBuildLogsInput{Template: ".."}, nil, `name cannot be ".."`},
		"no right":                  {getBuildLogsInput{Workspace: devName}, forbidden("coderworkspaces/log"), "get coderworkspaces/log.aggregation.coder.com coder/coder.ada.dev"},
		"an answer that breaks off": {getBuildLogsInput{Workspace: devName}, errReading, "get coderworkspaces/log.aggregation.coder.com coder/coder.ada.dev: connection lost"},
	} {
		t.Run(name, func(t *testing.T) {
			kube := fakeKube(t, interceptor.Funcs{}, nil, devWorkspace("Running"))
			switch {
			case errors.Is(tt.raw, errReading):
				kube.Raw = breaking{}.Get
			case tt.raw != nil:
				kube.Raw = refusing{tt.raw}.Get
			}
			tt.in.Namespace = "coder"
			_, err := getBuildLogs(t.Context(), &toolset.Call{Kube: kube}, tt.in)
			wantError(t, err, tt.want)
		})
	}
}

var errReading = errors.New("connection lost")

// breaking is a Getter whose response fails while it is read.
type breaking struct{}

func (breaking) Read([]byte) (int, error) { return 0, errReading }
func (breaking) Close() error             { return nil }

func (b breaking) Get(context.Context, string, url.Values) (io.ReadCloser, error) { return b, nil }
