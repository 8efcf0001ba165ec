package workspace

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/storage"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
)

func TestTable(t *testing.T) {
	k, clock := newKind(t)
	deadline := built.Add(3 * time.Hour)
	item := workspaceWith("start", "running")
	item.LatestBuild.Deadline, item.LatestBuild.TemplateVersionName, item.Healthy = &deadline, "v7", true
	item.LastUsedAt = built.Add(30 * time.Minute)
	failed := workspaceWith("start", "failed")
	failed.Outdated = true
	list := &aggregationv1alpha1.CoderWorkspaceList{ListMeta: metav1.ListMeta{ResourceVersion: "9", Continue: "c"}, Items: []aggregationv1alpha1.CoderWorkspace{
		*k.mustConvert(t, item, nil, nil), *k.mustConvert(t, failed, nil, nil),
	}}
	clock.SetTime(built.Truncate(time.Second).Add(time.Hour))
	got, err := k.ConvertToTable(t.Context(), list, nil)
	if err != nil {
		t.Fatal(err)
	}
	var narrow, wide []string
	for _, c := range got.ColumnDefinitions {
		if c.Description == "" {
			t.Errorf("column %s has no description", c.Name)
		}
		if c.Priority == 0 {
			narrow = append(narrow, strings.ToUpper(c.Name))
			continue
		}
		wide = append(wide, strings.ToUpper(c.Name))
	}
	if diff := cmp.Diff("NAME OWNER TEMPLATE STATUS HEALTH OUTDATED AGE", strings.Join(narrow, " ")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff("WORKSPACE,ORGANIZATION,CONTROL PLANE,VERSION,AUTOSTOP,LAST USED,REASON", strings.Join(wide, ",")); diff != "" {
		t.Error(diff)
	}
	var rows []string
	for _, r := range got.Rows {
		if len(r.Cells) != len(got.ColumnDefinitions) {
			t.Errorf("%d cells for %d columns", len(r.Cells), len(got.ColumnDefinitions))
		}
		rows = append(rows, fmt.Sprint(r.Cells...))
	}
	want := []string{
		fmt.Sprint("cp.coder.ada.dev", "ada", "starter", "Running", "Healthy", false, "60m", "Dev", "coder", "cp", "v7", "120m", "30m", ""),
		fmt.Sprint("cp.coder.ada.dev", "ada", "starter", "Failed", "-", true, "60m", "Dev", "coder", "cp", "", "-", "60m", "BuildFailed"),
	}
	if diff := cmp.Diff(want, rows); diff != "" || got.ResourceVersion != "9" || got.Continue != "c" {
		t.Errorf("revision %s (-want +got):\n%s", got.ResourceVersion, diff)
	}
}

func TestSelectors(t *testing.T) {
	k, _ := newKind(t)
	item := workspaceWith("start", "running")
	item.OwnerName = "Ada"
	ws := k.mustConvert(t, item, nil, nil)
	s, _ := registry.NewScheme(AddToScheme)
	gvk := aggregationv1alpha1.GroupVersion.WithKind("CoderWorkspace")
	matching := func(text string) (bool, error) {
		selector, err := fields.ParseSelector(text)
		if err != nil {
			return false, err
		}
		selector, err = selector.Transform(func(label, value string) (string, string, error) { return s.ConvertFieldLabel(gvk, label, value) })
		if err != nil {
			return false, err
		}
		_, set, err := info.Attributes(ws)
		return selector.Matches(set), err
	}
	for text, want := range map[string]bool{
		"metadata.name=cp.coder.ada.dev": true, "metadata.name=x": false, "metadata.namespace=team": true,
		"spec.templateName=starter": true, "spec.organization=coder": true, "spec.running=true": true, "spec.running=false": false,
		"status.ownerName=ada,status.phase=Running": true, "status.ownerName!=ada": false,
		"status.ownerName=Ada": true, "status.ownerName=ad": false,
		"status.templateName=Starter,status.organizationName=Coder": true, "status.templateName=other": false,
	} {
		if got, err := matching(text); err != nil || got != want {
			t.Errorf("%s: %t, %v, want %t", text, got, err, want)
		}
	}
	if _, err := matching("spec.ttlMillis=1"); err == nil || !strings.Contains(err.Error(), "status.phase") {
		t.Errorf("an unknown field: %v", err)
	}
	for _, field := range info.Indexed {
		index := (*info.Indexers())[storage.FieldIndex(field)]
		_, set, _ := info.Attributes(ws)
		if got, err := index(ws); err != nil || len(got) != 1 || got[0] != set[field] {
			t.Errorf("index of %s: %v, %v", field, got, err)
		}
	}
}

func FuzzFieldLabel(f *testing.F) {
	f.Add("metadata.name", "x")
	f.Add("spec.running", "true")
	f.Add("spec.", "")
	f.Fuzz(func(t *testing.T, label, value string) {
		got, kept, err := info.FieldLabel(label, value)
		_, set, _ := info.Attributes(&aggregationv1alpha1.CoderWorkspace{})
		if _, known := set[label]; known != (err == nil) || err == nil && (got != label || kept != value && kept != strings.ToLower(value)) {
			t.Errorf("%q=%q becomes %q=%q, %v", label, value, got, kept, err)
		}
	})
}

func TestDryRunsOnlyRead(t *testing.T) {
	w := newFixture(t)
	w.coder.AddWorkspace("ada", w.template, "dev")
	w.mirror()
	w.coder.ResetRequests()
	fresh := newWorkspace("coder.ada.fresh", parameter("size", "2"), func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Spec.TemplateVersionPreset = "big" })
	strategy{}.PrepareForCreate(t.Context(), fresh)
	w.must(w.kind.CheckCreate(t.Context(), fresh))
	current := w.object(devName)
	for name, change := range map[string]edit{
		"nothing": labelled("a", "b"), "all": all(running(false), parameter("size", "2")),
	} {
		wanted := current.DeepCopy()
		change(wanted)
		strategy{}.PrepareForUpdate(context.Background(), wanted, current)
		if err := w.kind.CheckUpdate(t.Context(), wanted, current); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	wrong := current.DeepCopy()
	parameter("size", "99")(wrong)
	wantInvalid(t, w.kind.CheckUpdate(t.Context(), wrong, current), "spec.parameters[size]", "at most 8")
	if n := w.coder.Writes(); n != 0 || len(w.records.Writes()) != 0 {
		t.Errorf("writes %v, records %v", w.coder.Requests(), w.records.Writes())
	}
}

func BenchmarkTable(b *testing.B) {
	k := New(Config{Config: registry.Config{Clock: scaleClock{}}})
	list := &aggregationv1alpha1.CoderWorkspaceList{}
	for range 10_000 {
		n := intent{}
		list.Items = append(list.Items, *k.object(somewhere, workspaceWith("start", "running"), nil, n, nil))
	}
	for b.Loop() {
		if _, err := k.ConvertToTable(context.Background(), list, nil); err != nil {
			b.Fatal(err)
		}
	}
}

type scaleClock struct{}

func (scaleClock) Now() time.Time                  { return built }
func (scaleClock) Since(t time.Time) time.Duration { return built.Sub(t) }
