//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// testMCPContent reads resources and prompts, in both eras, and receives a
// notification about a change in Coder.
func testMCPContent(t *testing.T) {
	// The resources below are read once and must show a working control plane and
	// workspace. The tests before this one restart Coder.
	waitCondition(t, "Ready", "True", "Ready", "-n", sampleNamespace, "ccp", "coder")
	waitCondition(t, "Ready", "True", "Running", "-n", sampleNamespace, "cws", "coder.admin.hello")
	reader := newRobot(t, sampleNamespace, "e2e-mcp-reader", "view")
	for _, era := range []string{legacyEra, modernEra} {
		a := reader.connect(t, era, reader.throughService(t), newDeeds())
		t.Run("resources with "+era, func(t *testing.T) { mcpResources(t, a) })
		t.Run("prompts with "+era, func(t *testing.T) { mcpPrompts(t, a) })
		t.Run("completion with "+era, func(t *testing.T) { mcpCompletion(t, a) })
	}
	t.Run("subscription", func(t *testing.T) { mcpSubscription(t, reader) })
	noTokenTold(t, operatorLogs(t), reader.token)
}

func mcpResources(t *testing.T, a *assistant) {
	listed, err := a.ListResources(t.Context(), nil)
	if err != nil || len(listed.Resources) == 0 {
		t.Errorf("the resources are %v: %v", listed, err)
	}
	templates, err := a.ListResourceTemplates(t.Context(), nil)
	if err != nil || len(templates.ResourceTemplates) < 8 {
		t.Errorf("the resource templates are %v: %v", templates, err)
	}
	for uri, want := range map[string][]string{
		"coder://controlplanes/coder":                       {"coder://controlplanes/coder/coder", "Ready"},
		"coder://controlplanes/coder/coder":                 {coderImage, "OperatorAccess"},
		"coder://controlplanes/coder/coder/pods":            {"Running", "coder-"},
		"coder://controlplanes/coder/coder/events":          {"["},
		"coder://workspaces/coder/coder.admin.hello":        {"coder.admin.hello", "BuildSucceeded"},
		"coder://workspaces/coder/coder.admin.hello/log":    {"Apply complete!"},
		"coder://templates/coder/coder.hello":               {"coder.hello", "main.tf"},
		"coder://templates/coder/coder.hello/files/main.tf": {`resource "terraform_data" "hello"`},
	} {
		read, err := a.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		if err != nil || len(read.Contents) != 1 || !containsAll(read.Contents[0].Text, want...) {
			t.Errorf("%s does not have %q: %v %v", uri, want, read, err)
		}
	}
	if _, err := a.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "coder://workspaces/coder/coder.admin.nobody"}); err == nil {
		t.Error("a workspace that does not exist can be read")
	}
	if _, err := a.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "coder://controlplanes"}); err == nil || !strings.Contains(err.Error(), "may not list") {
		t.Errorf("the control planes of all namespaces can be listed by one who may not: %v", err)
	}
}

func mcpPrompts(t *testing.T, a *assistant) {
	listed, err := a.ListPrompts(t.Context(), nil)
	if err != nil || len(listed.Prompts) != 3 {
		t.Fatalf("the prompts are %v: %v", listed, err)
	}
	for prompt, of := range map[string]struct{ name, want string }{
		"diagnose_control_plane": {"coder", "CoderControlPlane coder/coder works"},
		"diagnose_workspace":     {"coder.admin.hello", "BuildSucceeded"},
		"review_template":        {"coder.hello", `resource "terraform_data" "hello"`},
	} {
		got, err := a.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: prompt, Arguments: map[string]string{"namespace": sampleNamespace, "name": of.name}})
		if err != nil || len(got.Messages) != 1 {
			t.Errorf("%s: %v %v", prompt, got, err)
			continue
		}
		if text, ok := got.Messages[0].Content.(*mcp.TextContent); !ok || !strings.Contains(text.Text, of.want) {
			t.Errorf("%s has not brought %q along: %v", prompt, of.want, got.Messages[0].Content)
		}
	}
}

func mcpCompletion(t *testing.T, a *assistant) {
	inNamespace := &mcp.CompleteContext{Arguments: map[string]string{"namespace": sampleNamespace}}
	for _, c := range []struct {
		ref         *mcp.CompleteReference
		typed, want string
	}{
		{&mcp.CompleteReference{Type: "ref/prompt", Name: "diagnose_workspace"}, "coder.admin.h", "coder.admin.hello"},
		{&mcp.CompleteReference{Type: "ref/resource", URI: "coder://templates/{namespace}/{name}"}, "coder.h", "coder.hello"},
	} {
		got, err := a.Complete(t.Context(), &mcp.CompleteParams{
			Ref: c.ref, Argument: mcp.CompleteParamsArgument{Name: "name", Value: c.typed}, Context: inNamespace,
		})
		if err != nil || !slices.Contains(got.Completion.Values, c.want) {
			t.Errorf("%q is completed to %v: %v", c.typed, got, err)
		}
	}
}

// mcpSubscription receives a notification about a workspace that is stopped in Coder,
// and then reads it.
func mcpSubscription(t *testing.T, reader robot) {
	const uri = "coder://workspaces/coder/coder.admin.hello"
	a := reader.connect(t, modernEra, reader.throughService(t), newDeeds())
	a.subscribe(t, uri, "cws", "coder.admin.hello")
	client := login(t, sampleNamespace, "coder")
	running := buildStatus(t, client, "admin", "hello", "running")
	before, start := a.news.Load(), time.Now()
	polltest.Eventually(t, "what was heard so far has been told", func() error {
		if now := a.news.Load(); now != before {
			before, start = now, time.Now()
		}
		if quiet := time.Since(start); quiet < 2*time.Second {
			return fmt.Errorf("the last news came %s ago", quiet)
		}
		return nil
	})
	start = time.Now()
	build(t, client, running, "stop")
	polltest.Eventually(t, "the subscriber hears of the stop that was made in Coder", func() error {
		if a.news.Load() == before {
			return fmt.Errorf("there is no news")
		}
		return nil
	})
	t.Logf("the first news came after %.1f s", time.Since(start).Seconds())
	polltest.Eventually(t, "the resource says that the workspace is stopped", func() error {
		read, err := a.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		if err != nil || !strings.Contains(read.Contents[0].Text, "Stopped") {
			return fmt.Errorf("%v %w", read, err)
		}
		return nil
	})
	build(t, client, buildStatus(t, client, "admin", "hello", "stopped"), "start")
	waitCondition(t, "Ready", "True", "Running", "-n", sampleNamespace, "cws", "coder.admin.hello")
	t.Logf("there were %d news in all", a.news.Load())
}
