package tools

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

var update = flag.Bool("update", false, "write the golden files")

const (
	golden = "testdata/tools.golden.json"
	// A model reads the whole list before each conversation.
	maxTools, maxListBytes = 25, 12 << 10
)

func connect(t *testing.T, register func(*mcp.Server)) *mcp.ClientSession {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "v0"}, nil)
	register(server)
	clientEnd, serverEnd := mcp.NewInMemoryTransports()
	running, err := server.Connect(t.Context(), serverEnd, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { running.Close() })
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "v0"}, nil).Connect(t.Context(), clientEnd, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

func listed(t *testing.T) []*mcp.Tool {
	t.Helper()
	session := connect(t, func(s *mcp.Server) { Register(s, fake.NewClientBuilder().Build()) })
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return list.Tools
}

func TestDefinitionsAreTheGolden(t *testing.T) {
	got, err := json.MarshalIndent(listed(t), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("the tools differ from %s; if that is meant, run the test with -update (-want +got):\n%s", golden, diff)
	}
}

func TestDefinitionsAreWhatClientsNeed(t *testing.T) {
	tools := listed(t)
	raw, err := json.Marshal(tools)
	if err != nil {
		t.Fatal(err)
	}
	if len(tools) > maxTools || len(raw) > maxListBytes {
		t.Errorf("%d tools take %d bytes; at most %d and %d", len(tools), len(raw), maxTools, maxListBytes)
	}
	for _, tool := range tools {
		a := tool.Annotations
		if tool.Title == "" || tool.Description == "" || a == nil || a.Title == "" || a.DestructiveHint == nil || a.OpenWorldHint == nil {
			t.Errorf("%s: a title, a description or an annotation is missing", tool.Name)
			continue
		}
		if a.ReadOnlyHint && *a.DestructiveHint {
			t.Errorf("%s reads only and destroys", tool.Name)
		}
		for what, schema := range map[string]any{"input": tool.InputSchema, "output": tool.OutputSchema} {
			checkSchema(t, tool.Name+" "+what, schema)
		}
	}
}

// checkSchema wants a description on each property and no type that is a list.
func checkSchema(t *testing.T, path string, schema any) {
	t.Helper()
	raw, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(raw, []byte(`"null"`)) || bytes.Contains(raw, []byte(`"type":[`)) {
		t.Errorf("%s: a value may be null, which some clients refuse: %s", path, raw)
	}
	var node struct {
		Properties map[string]struct {
			Description string `json:"description"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(raw, &node); err != nil {
		t.Fatal(err)
	}
	for name, property := range node.Properties {
		if property.Description == "" {
			t.Errorf("%s: property %s has no description", path, name)
		}
	}
}
