package tools

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

const templatesPath = "/apis/aggregation.coder.com/v1alpha1/codertemplates"

// asJSON returns the JSON of a value.
func asJSON(t *testing.T, value any) string {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestListTemplatesDescribesThem(t *testing.T) {
	tmpl := dockerTemplate()
	tmpl.Status.TemplateName = "Docker"
	tmpl.Status.LatestVersionID, tmpl.Status.LatestVersionName = newID, "v2"
	tmpl.Status.LatestVersionStatus, tmpl.Status.LatestVersionError = "failed", "no provider"
	tmpl.Status.Deprecated = true
	versionState(metav1.ConditionFalse, metav1.ConditionTrue, "it failed")(tmpl)
	list := aggregationv1alpha1.CoderTemplateList{Items: []aggregationv1alpha1.CoderTemplate{*tmpl}}
	list.Kind, list.APIVersion = "CoderTemplateList", "aggregation.coder.com/v1alpha1"
	for namespace, path := range map[string]string{
		"": templatesPath, "coder": "/apis/aggregation.coder.com/v1alpha1/namespaces/coder/codertemplates",
	} {
		kube := fakeKube(t, interceptor.Funcs{}, rawTexts{path + "?limit=50": asJSON(t, list)})
		out, err := listTemplates(t.Context(), &toolset.Call{Kube: kube}, listInput{Namespace: namespace})
		if err != nil {
			t.Fatal(err)
		}
		want := listOutput[template]{Items: []template{{
			Name: dockerName, Namespace: "coder", DisplayName: "Docker", TemplateName: "Docker", Organization: "coder", ActiveVersion: "v1", ActiveVersionID: activeID,
			LatestVersion: "v2", LatestVersionID: newID, LatestVersionStatus: "failed", LatestVersionError: "no provider", Reason: "Reason", Deprecated: true,
		}}}
		if diff := cmp.Diff(want, out); diff != "" {
			t.Errorf("in %q (-want +got):\n%s", namespace, diff)
		}
	}
}

func TestListTemplatesPagesHoldEachOnce(t *testing.T) {
	var all, got []string
	for i := range 12 {
		all = append(all, fmt.Sprintf("coder.t%02d", i))
	}
	page := func(from, to int, next string) string {
		list := aggregationv1alpha1.CoderTemplateList{ListMeta: metav1.ListMeta{Continue: next}}
		for _, name := range all[from:to] {
			list.Items = append(list.Items, aggregationv1alpha1.CoderTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: name}})
		}
		return asJSON(t, list)
	}
	call := &toolset.Call{Kube: fakeKube(t, interceptor.Funcs{}, rawTexts{
		templatesPath + "?limit=5": page(0, 5, "a"), templatesPath + "?continue=a&limit=5": page(5, 10, "b"), templatesPath + "?continue=b&limit=5": page(10, 12, ""),
	})}
	in := listInput{Limit: 5}
	for {
		out, err := listTemplates(t.Context(), call, in)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range out.Items {
			got = append(got, item.Name)
		}
		if out.Truncated != (out.NextCursor != "") {
			t.Fatalf("truncated %v, cursor %q", out.Truncated, out.NextCursor)
		}
		if in.Cursor = out.NextCursor; in.Cursor == "" || len(got) > len(all) {
			break
		}
	}
	wantEqual(t, all, got)
}

func TestListTemplatesSaysWhatIsWrong(t *testing.T) {
	for name, tt := range map[string]struct {
		namespace, body, want string
	}{
		"a namespace that is a path": {"../../..", "", `namespace cannot be "../../.."`},
		"an API that is not there":   {"coder", "", "list codertemplates.aggregation.coder.com in namespace coder"},
		"half an answer":             {"coder", `{"items":[{"metadata":{"name":"a"}}`, "reading the answer"},
		"an answer without its end":  {"coder", `{"items":[]`, "reading the answer"},
		"no list":                    {"coder", `[]`, "reading the answer: the list has ["},
		"items that are no list":     {"coder", `{"items":{}}`, "reading the answer"},
	} {
		t.Run(name, func(t *testing.T) {
			raw := rawTexts{}
			if tt.body != "" {
				raw["/apis/aggregation.coder.com/v1alpha1/namespaces/coder/codertemplates"] = tt.body
			}
			_, err := listTemplates(t.Context(), &toolset.Call{Kube: fakeKube(t, interceptor.Funcs{}, raw)}, listInput{Namespace: tt.namespace})
			wantError(t, err, tt.want)
		})
	}
}

// A page of two hundred templates with all their files would exhaust the memory.
func TestListTemplatesKeepsOneAtATime(t *testing.T) {
	const count, size = 12, 1 << 20
	file := strings.Repeat("x", size)
	before, most := inUse(), uint64(0)
	read, write := io.Pipe()
	go func() {
		fmt.Fprint(write, `{"kind":"CoderTemplateList","metadata":{"continue":"next"},"items":[`)
		for i := range count {
			if i > 0 {
				fmt.Fprint(write, ",")
			}
			most = max(most, inUse())
			fmt.Fprintf(write, `{"metadata":{"name":"coder.t%d"},"spec":{"files":{"main.tf":"%s"}},"status":{}}`, i, file)
		}
		fmt.Fprint(write, "]}")
		write.Close()
	}()
	items, next, err := decodeTemplates(read)
	if err != nil || len(items) != count || next != "next" {
		t.Fatalf("%d items, %q, %v", len(items), next, err)
	}
	if most > before+6*size {
		t.Errorf("%d KiB were in use and %d KiB before, with templates of %d KiB", most>>10, before>>10, size>>10)
	}
}

// inUse returns the size of the allocated heap.
func inUse() uint64 {
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	return memory.HeapAlloc
}

func FuzzDecodeTemplates(f *testing.F) {
	for _, seed := range []string{
		`{"metadata":{"continue":"x"},"items":[{"metadata":{"name":"a"},"spec":{"files":{"a":"b"}}}]}`, `{"items":null}`, `{}`, `[`, `{"items":[]} x`, "",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if items, _, err := decodeTemplates(strings.NewReader(body)); err == nil && len(items) > len(body) {
			t.Errorf("%d templates are read of %q", len(items), body)
		}
		if !json.Valid([]byte(body)) {
			return
		}
		// Other fields of the list must not affect its templates.
		items, next, err := decodeTemplates(strings.NewReader(`{"other":` + body + `,"items":[{"spec":{"files":{"a":"b"}},"metadata":{"name":"x"}}],"metadata":{"continue":"y"}}`))
		if err != nil || len(items) != 1 || items[0].Name != "x" || next != "y" {
			t.Errorf("beside %q: %v, %q, %v", body, items, next, err)
		}
	})
}
