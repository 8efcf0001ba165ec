package tools

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/mcptest"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

var update = flag.Bool("update", false, "write the golden files")

const (
	golden = "testdata/tools.golden.json"
	// A model reads the whole list before each conversation, so it is limited to 20 KB,
	// including a description, the default and the limits of each argument. Toolset inside,
	// which is not enabled by default, has its own limit.
	maxTools, maxListBytes             = 25, 20000
	maxInsideTools, maxInsideListBytes = 8, 9000
	maxDescription                     = 160
)

func connect(t *testing.T, kube *callers.Kube) *mcp.ClientSession {
	t.Helper()
	server := mcptest.NewServer(nil, nil)
	All().Register(server, toolset.Env{Kube: kube})
	return mcptest.Connect(t, server, nil, nil)
}

// object contains the checked fields of a schema.
type object struct {
	Properties map[string]struct {
		Type        string `json:"type"`
		Description string `json:"description"`
	} `json:"properties"`
	Required []string `json:"required"`
}

func (o object) has(names ...string) bool {
	for _, name := range names {
		if _, ok := o.Properties[name]; !ok {
			return false
		}
	}
	return true
}

// offered is a tool as a client sees it, with its definition.
type offered struct {
	*mcp.Tool
	toolset.Definition
	input object
	// answers are the fields of its answers, with dots between the levels.
	answers []string
}

func offeredTools(t *testing.T) (list *mcp.ListToolsResult, byName map[string]offered) {
	t.Helper()
	list, err := connect(t, fakeKube(t, interceptor.Funcs{}, nil)).ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	byName = map[string]offered{}
	for _, d := range All().Definitions() {
		at := slices.IndexFunc(list.Tools, func(tool *mcp.Tool) bool { return tool.Name == d.Name })
		if at < 0 {
			t.Fatalf("%s is not in the list", d.Name)
		}
		tool := offered{Tool: list.Tools[at], Definition: d, answers: fieldsOf(All().Answer(d.Name), "")}
		raw, err := json.Marshal(tool.InputSchema)
		if err == nil {
			err = json.Unmarshal(raw, &tool.input)
		}
		if err != nil {
			t.Fatal(err)
		}
		byName[d.Name] = tool
	}
	if len(byName) != len(list.Tools) {
		t.Errorf("%d tools are listed and %d defined", len(list.Tools), len(byName))
	}
	return list, byName
}

func TestDefinitionsAreTheGolden(t *testing.T) {
	list, _ := offeredTools(t)
	var got bytes.Buffer
	encoder := json.NewEncoder(&got)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(list.Tools); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("the tools differ from %s; if that is meant, run the test with -update (-want +got):\n%s", golden, diff)
	}
}

func TestTheListIsSmall(t *testing.T) {
	list, byName := offeredTools(t)
	raw, err := json.Marshal(list.Tools)
	if err != nil {
		t.Fatal(err)
	}
	usual, optional := 0, 0
	bytesOf := map[bool]int{}
	for _, tool := range list.Tools {
		isInside := byName[tool.Name].Toolset == toolset.Inside
		if isInside {
			optional++
		} else {
			usual++
		}
		raw, err := json.Marshal(tool)
		if err != nil {
			t.Fatal(err)
		}
		bytesOf[isInside] += len(raw) + 1
	}
	if usual > maxTools || bytesOf[false] > maxListBytes {
		t.Errorf("%d tools take %d bytes; at most %d and %d", usual, bytesOf[false], maxTools, maxListBytes)
	}
	if optional > maxInsideTools || bytesOf[true] > maxInsideListBytes {
		t.Errorf("%d tools of %s take %d bytes; at most %d and %d", optional, toolset.Inside, bytesOf[true], maxInsideTools, maxInsideListBytes)
	}
	if bytes.Contains(raw, []byte(`"null"`)) || bytes.Contains(raw, []byte(`"type":[`)) {
		t.Errorf("a value may be null, which some clients refuse: %s", raw)
	}
	if testing.Verbose() {
		for _, tool := range list.Tools {
			raw, err := json.Marshal(tool)
			t.Logf("%4d bytes %s %v", len(raw), tool.Name, err)
		}
		t.Logf("%d tools, %d bytes", len(byName), len(raw))
	}
}

func TestDefinitionsAreWhatClientsNeed(t *testing.T) {
	_, byName := offeredTools(t)
	snakeCase := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	reads := regexp.MustCompile(`^(get|list|read|diagnose|check)_`)
	titles := map[string]string{}
	for name, tool := range byName {
		if !snakeCase.MatchString(name) {
			t.Errorf("%s is not written like the others", name)
		}
		if other, ok := titles[tool.Tool.Title]; ok || tool.Tool.Title == "" {
			t.Errorf("%s has the title %q, as %s has", name, tool.Tool.Title, other)
		}
		titles[tool.Tool.Title] = name
		if d := tool.Tool.Description; len(d) == 0 || len(d) > maxDescription || !strings.HasSuffix(d, ".") {
			t.Errorf("%s: the description %q has %d characters, or is no sentence", name, d, len(d))
		}
		a := tool.Annotations
		if a == nil || a.OpenWorldHint == nil || *a.OpenWorldHint != (name == "run_in_workspace") || a.ReadOnlyHint == (a.DestructiveHint != nil) || tool.OutputSchema == nil {
			t.Errorf("%s: the annotations are %+v", name, a)
			continue
		}
		if reads.MatchString(name) != a.ReadOnlyHint {
			t.Errorf("%s: its name and readOnlyHint %t do not go together", name, a.ReadOnlyHint)
		}
		if !slices.Contains(toolset.Toolsets(), tool.Toolset) {
			t.Errorf("%s is in no toolset", name)
		}
	}
}

func TestDestroyingIsConfirmed(t *testing.T) {
	_, byName := offeredTools(t)
	for name, tool := range byName {
		if destroys := tool.Effect == toolset.Destroys; destroys != tool.input.has("confirm") {
			t.Errorf("%s: destroys is %t, argument confirm %t", name, destroys, !destroys)
		}
		if slices.Contains(tool.input.Required, "confirm") {
			t.Errorf("%s: confirm is required, and clients that can ask need not give it", name)
		}
		if (tool.input.has("wait") || tool.Waits) != tool.input.has("timeoutSeconds") {
			t.Errorf("%s has one of wait and timeoutSeconds", name)
		}
		if reads := tool.Effect == toolset.Reads; reads && tool.input.has("dryRun") {
			t.Errorf("%s reads and can be tried only", name)
		}
	}
}

// TestArgumentsAreDescribed checks that each argument has a short description.
func TestArgumentsAreDescribed(t *testing.T) {
	_, byName := offeredTools(t)
	used := map[string]bool{}
	for name, tool := range byName {
		for argument, property := range tool.input.Properties {
			if property.Description == "" || len(property.Description) > maxDescription {
				t.Errorf("%s: argument %s has the description %q", name, argument, property.Description)
			}
			used[argument], used[name+"."+argument] = true, true
			if argument == "continue" {
				t.Errorf("%s: the argument for the next page is called %s and not cursor", name, argument)
			}
		}
	}
	for key := range descriptions {
		if !used[key] {
			t.Errorf("%q describes no argument", key)
		}
	}
}

func TestListsComeInPages(t *testing.T) {
	_, byName := offeredTools(t)
	for name, tool := range byName {
		if !strings.HasPrefix(name, "list_") {
			continue
		}
		if !tool.input.has("limit", "cursor") {
			t.Errorf("%s has no pages: %v", name, tool.input)
		}
		for _, field := range []string{"items", "truncated", "nextCursor"} {
			if !slices.Contains(tool.answers, field) {
				t.Errorf("the answer of %s has no %s", name, field)
			}
		}
	}
}

func TestRightsNameWhatToolsUse(t *testing.T) {
	for _, d := range All().Definitions() {
		if len(d.Rights)+len(d.OneOf) == 0 && d.Name != "check_health" {
			t.Errorf("%s needs no right", d.Name)
		}
		verbs := []string{"get", "list", "watch"}
		if d.Effect != toolset.Reads {
			verbs = append(verbs, "create", "update", "patch", "delete")
		}
		for i, right := range d.AllRights() {
			// Files are read by commands.
			reads := d.Toolset == toolset.Inside && right == callers.AggregatedRight("create", "coderworkspaces/exec")
			if !reads && !slices.Contains(verbs, right.Verb) {
				t.Errorf("%s (%s) has the verb %q", d.Name, d.Effect, right.Verb)
			}
			if right.Resource == "" || strings.Contains(right.Resource, "*") || strings.HasPrefix(right.Resource, "secrets") {
				t.Errorf("%s has the resource %q", d.Name, right.Resource)
			}
			if slices.Contains(d.AllRights()[:i], right) {
				t.Errorf("%s names %v twice", d.Name, right)
			}
		}
		if len(d.OneOf) == 1 {
			t.Errorf("%s has no choice", d.Name)
		}
	}
}

// predecessor contains the tools of the previous implementation: their arguments, with a
// star if required, and the fields of their answers.
var predecessor = map[string]struct{ input, output string }{
	"list_control_planes":                 {"namespace", "items.name items.namespace items.phase items.readyReplicas items.url"},
	"get_control_plane_status":            {"namespace* name*", "observedGeneration readyReplicas url phase conditions.type conditions.status conditions.reason conditions.message conditions.observedGeneration conditions.lastTransitionTime"},
	"list_control_plane_pods":             {"namespace* name* limit", "items.name items.namespace items.phase items.nodeName items.readyContainers items.totalContainers items.startTime truncated"},
	"get_control_plane_deployment_status": {"namespace* name*", "name namespace replicas readyReplicas updatedReplicas availableReplicas unavailableReplicas observedGeneration conditions.type conditions.status conditions.reason conditions.message conditions.lastUpdateTime conditions.lastTransitionTime"},
	"get_service_status":                  {"namespace* name*", "name namespace type clusterIP ports.name ports.port ports.targetPort ports.nodePort ports.protocol annotations"},
	"list_workspaces":                     {"namespace", "items.name items.namespace items.running items.autoShutdown"},
	"get_workspace":                       {"namespace* name*", "workspace.name workspace.namespace workspace.running workspace.autoShutdown"},
	"set_workspace_running":               {"namespace* name* running*", "workspace.name workspace.namespace workspace.running workspace.autoShutdown updated"},
	"list_templates":                      {"namespace", "items.name items.namespace items.running items.autoShutdown"},
	"get_template":                        {"namespace* name*", "template.name template.namespace template.running template.autoShutdown"},
	"set_template_running":                {"namespace* name* running*", "template.name template.namespace template.running template.autoShutdown updated"},
	"get_events":                          {"namespace* name kind limit continue", "items.type items.reason items.message items.count items.lastTimestamp continue"},
	"get_pod_logs":                        {"namespace* name* container tailLines limitBytes", "logs"},
	"check_health":                        {"", "status version"},
}

func TestWhatThePredecessorHadIsThere(t *testing.T) {
	_, byName := offeredTools(t)
	for name, want := range predecessor {
		tool, ok := byName[name]
		if !ok {
			t.Errorf("%s is not there", name)
			continue
		}
		var required []string
		for argument := range strings.FieldsSeq(want.input) {
			argument, isRequired := strings.CutSuffix(argument, "*")
			if All().Arguments(name).Properties[argument] == nil {
				t.Errorf("%s has no argument %s", name, argument)
			}
			if isRequired {
				required = append(required, argument)
			}
		}
		slices.Sort(required)
		slices.Sort(tool.input.Required)
		if diff := cmp.Diff(required, tool.input.Required); diff != "" {
			t.Errorf("%s requires other arguments (-want +got):\n%s", name, diff)
		}
		for field := range strings.FieldsSeq(want.output) {
			if !slices.Contains(tool.answers, field) {
				t.Errorf("the answer of %s has no %s; it has %v", name, field, tool.answers)
			}
		}
	}
}

// fieldsOf returns the names of the JSON fields of a type, with dots between the levels.
func fieldsOf(t reflect.Type, above string) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous && name == "" {
			names = append(names, fieldsOf(field.Type, above)...)
			continue
		}
		names = append(names, above+name)
		names = append(names, fieldsOf(field.Type, above+name+".")...)
	}
	return names
}

// Errors about missing objects are the most frequent ones for a model.
func TestAnEmptyClusterIsToldInSentences(t *testing.T) {
	_, byName := offeredTools(t)
	session := connect(t, fakeKube(t, interceptor.Funcs{}, nil))
	sample := map[string]any{"string": "x", "boolean": true, "integer": 1, "object": map[string]any{}, "array": []any{}}
	for name, tool := range byName {
		arguments := map[string]any{}
		for _, argument := range tool.input.Required {
			arguments[argument] = sample[tool.input.Properties[argument].Type]
		}
		if tool.input.has("confirm") {
			arguments["confirm"] = "x"
		}
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text := result.Content[0].(*mcp.TextContent).Text
		if strings.Contains(text, "null") || strings.Contains(text, "\n") || strings.Contains(text, "internal error") {
			t.Errorf("%s answers %s", name, text)
		}
		if named := slices.Contains(tool.input.Required, "name"); named && !result.IsError && !strings.HasPrefix(name, "create_") {
			t.Errorf("%s answers about what is not there: %s", name, text)
		}
	}
}

// A tool name has one of these verbs. Texts for clients must name only tools that exist.
func TestTextsNameToolsThatExist(t *testing.T) {
	_, byName := offeredTools(t)
	named := regexp.MustCompile(`\b(?:get|list|read|write|edit|diagnose|check|set|create|update|delete|push|promote|change|run|stop)_[a-z]+(?:_[a-z]+)*\b`)
	literal := regexp.MustCompile("\"(?:[^\"\\\\\n]|\\\\.)*\"|`[^`]*`")
	found := 0
	for _, pattern := range []string{"*.go", "../inside/*.go", "../diagnosis/*.go", "../resources/*.go", "../protocol/server.go", "../toolset/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, text := range literal.FindAllString(string(source), -1) {
				for _, name := range named.FindAllString(text, -1) {
					found++
					if _, ok := byName[name]; !ok {
						t.Errorf("%s: there is no tool %s: %s", file, name, text)
					}
				}
			}
		}
	}
	if found < len(byName) {
		t.Errorf("%d names were found", found)
	}
}
