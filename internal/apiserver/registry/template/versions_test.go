package template

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

// versions returns the messages of the versions of a template, with "*" at the active one and "-" at archived ones.
func (f *fixture) versions(name string) (all []string) {
	f.t.Helper()
	for _, v := range objectsOf(f.get(name), "1") {
		if v.Status.ID == "" || v.Status.VersionName == "" || v.CreationTimestamp.IsZero() || v.UID == "" || v.ResourceVersion != "1" ||
			!strings.HasPrefix(v.Name, name+".") || v.Labels[aggregationv1alpha1.LabelOrganization]+"."+v.Labels[aggregationv1alpha1.LabelTemplate] != name ||
			v.OwnerReferences[0].Name != name || v.Status.Template != name {
			f.t.Errorf("version %+v", v)
		}
		text := v.Status.Message
		if v.Status.Active {
			text += "*"
		}
		if v.Status.Archived {
			text += "-"
		}
		all = append(all, text)
	}
	return all
}

func (f *fixture) mustHave(name string, want ...string) {
	f.t.Helper()
	if diff := cmp.Diff(want, f.versions(name)); diff != "" {
		f.t.Errorf("versions of %s (-want +got):\n%s", name, diff)
	}
}

// TestVersions: they follow Coder, at the latest with the next reading of the versions.
func TestVersions(t *testing.T) {
	f := newFixture(t)
	one := f.coder.AddTemplateVersion(f.starter, "two", nil)
	two := f.coder.AddTemplateVersion(f.starter, "three", nil)
	f.kind.Built(controlPlane, f.starter)
	f.sync()
	f.mustHave("coder.starter", "three", "two", "*")
	f.must(f.watcher.SetActiveVersion(f.ctx, f.starter, one))
	f.sync()
	f.mustHave("coder.starter", "three", "two*", "")
	f.must(f.watcher.ArchiveVersion(f.ctx, two))
	f.clock.Step(restAge)
	f.sync()
	f.mustHave("coder.starter", "three-", "two*", "")
	// Another replica still has the page from before.
	before := f.get("coder.starter")
	f.restart()
	f.sync()
	f.mustHave("coder.starter", "three-", "two*", "")
	if after := f.get("coder.starter"); after.Status.Versions != before.Status.Versions {
		t.Errorf("what has not changed is another object: %+v", after.Status.Versions)
	}
}

// TestVersionsBeforeTheFirstSync: what is archived already is listed too.
func TestVersionsBeforeTheFirstSync(t *testing.T) {
	f := newFixture(t)
	other := f.coder.AddTemplate("coder", "other", nil)
	f.must(f.watcher.ArchiveVersion(f.ctx, f.coder.AddTemplateVersion(other, "old", nil)))
	f.sync()
	f.mustHave("coder.other", "old-", "*")
}

func TestOlderPageOfAnotherReplica(t *testing.T) {
	f := newFixture(t)
	stale := f.kind.versions
	f.restart()
	f.coder.AddTemplateVersion(f.starter, "two", nil)
	f.sync()
	f.mustHave("coder.starter", "two", "*")
	f.kind.versions = stale
	f.pass()
	f.mustHave("coder.starter", "two", "*")
}

func TestVersionThatFailed(t *testing.T) {
	f := newFixture(t)
	f.coder.SetBuildResult("", coderdtest.BuildResult{Error: "bad syntax"})
	f.must(f.update("coder.starter", files("broken {")))
	f.sync()
	got := f.get("coder.starter").Status.Versions.Items[0].Status
	if got.JobStatus != "failed" || got.Error != "bad syntax" || got.CreatedBy != "operator" || got.FileID == "" {
		t.Errorf("%+v", got)
	}
}

// TestHashOfTheSource: it is known of versions whose source was read.
func TestHashOfTheSource(t *testing.T) {
	f := newFixture(t)
	f.coder.AddTemplateVersion(f.starter, "other", map[string]string{mainTF: "# other"})
	f.kind.Built(controlPlane, f.starter)
	f.sync()
	items := f.get("coder.starter").Status.Versions.Items
	if len(items[1].Status.SourceSHA256) != 64 || items[0].Status.SourceSHA256 != "" {
		t.Errorf("the hashes are %q and %q", items[1].Status.SourceSHA256, items[0].Status.SourceSHA256)
	}
	first := items[1].Status
	f.must(f.update("coder.starter", files("# two")))
	f.sync()
	items = f.get("coder.starter").Status.Versions.Items
	if got := items[0].Status; len(got.SourceSHA256) != 64 || got.SourceSHA256 == first.SourceSHA256 || items[2].Status.SourceSHA256 != first.SourceSHA256 {
		t.Errorf("after a change: %+v, was %+v", items, first)
	}
}

func TestVersionsAreBounded(t *testing.T) {
	f := newFixture(t)
	for range maxVersions + 5 {
		f.coder.AddTemplateVersion(f.starter, "x", nil)
	}
	f.kind.Built(controlPlane, f.starter)
	f.sync()
	// The active version is the oldest.
	if got := f.versions("coder.starter"); len(got) != maxVersions+1 || got[maxVersions] != "*" {
		t.Errorf("%d versions: %q", len(got), got)
	}
	if got := condition(f.get("coder.starter"), aggregationv1alpha1.ConditionVersionsTruncated); got != "True TooManyVersions" {
		t.Errorf("the condition is %q", got)
	}
}

// TestNamesOfVersions: a version keeps its name, and no other one gets it.
func TestNamesOfVersions(t *testing.T) {
	of := func(id, name, known string) (v aggregationv1alpha1.CoderTemplateVersion) {
		v.Status.ID, v.Status.VersionName, v.Name = id, name, known
		return v
	}
	all := []aggregationv1alpha1.CoderTemplateVersion{
		of("44444444-4", "V1", ""), of("33333333-3", "v1", ""), of("22222222-2", "v2", "v1"), of("11111111-1", "v3", ""),
	}
	named(all)
	var got []string
	for _, v := range all {
		got = append(got, v.Name)
	}
	if diff := cmp.Diff([]string{"v1--44444444", "version--33333333-3", "v1", "v3"}, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

// TestEventsOfVersions: one write of a template is an event of each version that changed, each with a greater resourceVersion, and a watch
// from any of them continues with the next.
func TestEventsOfVersions(t *testing.T) {
	at := func(revision, active string, versions ...string) object {
		tmpl := &aggregationv1alpha1.CoderTemplate{}
		tmpl.Namespace, tmpl.Name, tmpl.ResourceVersion, tmpl.Status.ActiveVersionID = "team", "coder.x", revision, active
		tmpl.Status.Versions = &aggregationv1alpha1.TemplateVersions{}
		for _, v := range versions {
			item := aggregationv1alpha1.CoderTemplateVersion{}
			item.Name, item.Status.ID = v, v
			tmpl.Status.Versions.Items = append(tmpl.Status.Versions.Items, item)
		}
		return tmpl
	}
	states := []watch.Event{
		{Type: watch.Added, Object: at("5", "a", "a")},
		{Type: watch.Modified, Object: at("6", "a", "a")},
		{Type: watch.Modified, Object: at("7", "b", "a", "b", "c")},
		{Type: watch.Modified, Object: at("8", "b", "b", "c")},
		{Type: watch.Bookmark, Object: at("9", "")},
		{Type: watch.Deleted, Object: at("10", "b", "b", "c")},
	}
	events := func(after uint64, known object, states []watch.Event) (all []string) {
		w := &versionWatch{after: after, known: map[string]object{}, predicate: everything()}
		w.predicate.GetAttrs = versionInfo.Attributes
		if known != nil {
			w.known["team/coder.x"] = withVersionsOnly(known)
		}
		for _, state := range states {
			converted, err := w.convert(state)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range converted {
				v := e.Object.(*aggregationv1alpha1.CoderTemplateVersion)
				all = append(all, fmt.Sprint(e.Type, " ", strings.TrimPrefix(v.Name, "coder.x."), " ", v.Status.Active, " ", v.ResourceVersion))
			}
		}
		return all
	}
	want := []string{
		"ADDED a true 6143",
		"MODIFIED a false 7169", "ADDED b true 7170", "ADDED c false 8191",
		"DELETED a false 9215",
		"BOOKMARK  false 10239",
		"DELETED b true 10241", "DELETED c false 11263",
	}
	if diff := cmp.Diff(want, events(0, nil, states)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	// A label of the template, and its UID, are part of each version.
	for _, change := range []func(object){
		func(o object) { o.SetUID("other") },
		func(o object) { o.SetLabels(map[string]string{aggregationv1alpha1.LabelControlPlaneName: "other"}) },
		func(o object) { o.Status.ActiveVersionID = "" },
		func(o object) { o.Status.Versions = at("1", "", "a", "a2").Status.Versions },
	} {
		was := at("6", "a", "a")
		is := was.DeepCopy()
		is.ResourceVersion, is.Status.Versions = "7", was.Status.Versions
		if got := events(0, was, []watch.Event{{Type: watch.Modified, Object: is}}); len(got) != 0 {
			t.Errorf("without a change: %q", got)
		}
		if change(is); len(events(0, was, []watch.Event{{Type: watch.Modified, Object: is}})) != 1 {
			t.Errorf("no event of %+v", is)
		}
	}
	if diff := cmp.Diff(want[2:], events(7169, at("6", "a", "a"), states[2:])); diff != "" {
		t.Errorf("after the first one of a write (-want +got):\n%s", diff)
	}
}

// listedTemplates are templates at revision 9.
type listedTemplates struct {
	storage.Interface
	items []aggregationv1alpha1.CoderTemplate
}

func (listedTemplates) Versioner() storage.Versioner { return storage.APIObjectVersioner{} }

func (l listedTemplates) GetList(_ context.Context, _ string, _ storage.ListOptions, list runtime.Object) error {
	out := list.(*aggregationv1alpha1.CoderTemplateList)
	out.Items, out.ResourceVersion = l.items, "9"
	return nil
}

func (listedTemplates) GetCurrentResourceVersion(context.Context) (uint64, error) { return 9, nil }

// Watch returns a watch in which the templates are deleted.
func (l listedTemplates) Watch(_ context.Context, _ string, options storage.ListOptions) (watch.Interface, error) {
	if options.ResourceVersion != "9" {
		return nil, fmt.Errorf("a watch from %q", options.ResourceVersion)
	}
	w := watch.NewFakeWithChanSize(len(l.items), false)
	for i := range l.items {
		tmpl := l.items[i].DeepCopy()
		tmpl.ResourceVersion = "10"
		w.Delete(tmpl)
	}
	return w, nil
}

// TestWatchWithoutInitialEvents: a client that wants no present state receives only changes.
func TestWatchWithoutInitialEvents(t *testing.T) {
	tmpl := aggregationv1alpha1.CoderTemplate{}
	tmpl.Namespace, tmpl.Name, tmpl.ResourceVersion = "team", "coder.x", "5"
	tmpl.Status.Versions = &aggregationv1alpha1.TemplateVersions{Items: make([]aggregationv1alpha1.CoderTemplateVersion, 1)}
	tmpl.Status.Versions.Items[0].Name = "v1"
	s := newVersionStorage(listedTemplates{items: []aggregationv1alpha1.CoderTemplate{tmpl}})
	options := storage.ListOptions{Recursive: true, SendInitialEvents: new(bool), Predicate: everything()}
	options.Predicate.GetAttrs = versionInfo.Attributes
	w, err := s.Watch(t.Context(), s.prefix, options)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if e := <-w.ResultChan(); e.Type != watch.Deleted || e.Object.(*aggregationv1alpha1.CoderTemplateVersion).Name != "coder.x.v1" {
		t.Errorf("%s %+v", e.Type, e.Object)
	}
	for _, version := range []string{"1", "1023", "1025", "2047"} {
		if _, _, _, err := s.parse(version); !apierrors.IsResourceExpired(err) {
			t.Errorf("resource version %s: %v, want 410", version, err)
		}
	}
}

// TestPagesOfAllNamespaces: pages have the order of the keys, in which team-2/ is before team/.
func TestPagesOfAllNamespaces(t *testing.T) {
	var templates listedTemplates
	for _, namespace := range []string{"team", "team-2", "team2"} {
		tmpl := aggregationv1alpha1.CoderTemplate{}
		tmpl.Namespace, tmpl.Name, tmpl.ResourceVersion = namespace, "coder.x", "5"
		tmpl.Status.Versions = &aggregationv1alpha1.TemplateVersions{Items: []aggregationv1alpha1.CoderTemplateVersion{{}}}
		tmpl.Status.Versions.Items[0].Name = "v1"
		templates.items = append(templates.items, tmpl)
	}
	s := newVersionStorage(templates)
	options := storage.ListOptions{Recursive: true, Predicate: everything()}
	options.Predicate.GetAttrs, options.Predicate.Limit = versionInfo.Attributes, 1
	var all []string
	for range templates.items {
		var list aggregationv1alpha1.CoderTemplateVersionList
		if err := s.GetList(t.Context(), s.prefix, options, &list); err != nil {
			t.Fatal(err)
		}
		for _, v := range list.Items {
			all = append(all, v.Namespace+"/"+v.Name)
		}
		options.Predicate.Continue = list.Continue
	}
	if diff := cmp.Diff([]string{"team-2/coder.x.v1", "team/coder.x.v1", "team2/coder.x.v1"}, all); diff != "" || options.Predicate.Continue != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
}

// TestTimesOfAHostileCoder: a year that the record cannot have would make the template unreadable.
func TestTimesOfAHostileCoder(t *testing.T) {
	late, err := time.Parse(time.RFC3339, "9999-12-31T23:59:59-10:00")
	if err != nil {
		t.Fatal(err)
	}
	v := versionOf(coderd.TemplateVersion{CreatedAt: late, StartedAt: &late, CompletedAt: &time.Time{}}, nil)
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var read aggregationv1alpha1.CoderTemplateVersion
	if err := json.Unmarshal(data, &read); err != nil || !equality.Semantic.DeepEqual(v, read) {
		t.Errorf("%s: %v", data, err)
	}
}

// TestLogsOfFailedVersions: a template with thousands of failed builds causes no more requests than it has objects.
func TestLogsOfFailedVersions(t *testing.T) {
	f := newFixture(t)
	s := &snapshot{connection: f.kind.Connections.(fixedProvider).connection, page: page{all: true}}
	for range 3 * maxVersions {
		s.page.versions = append(s.page.versions, coderd.TemplateVersion{
			ID: uuid.New(), Name: "x", Status: buildFailed, Error: "exit status 1", CreatedAt: f.clock.Now(), UpdatedAt: f.clock.Now(),
		})
	}
	f.coder.ResetRequests()
	if got := f.kind.versionsOf(f.ctx, s, nil); len(got.Items) != maxVersions {
		t.Errorf("%d versions", len(got.Items))
	}
	if got := f.coder.Asked(); got != maxVersions {
		t.Errorf("%d requests", got)
	}
}

func TestLabelsOfVersionsWithLongNames(t *testing.T) {
	tmpl := &aggregationv1alpha1.CoderTemplate{}
	tmpl.Name = "coder." + strings.Repeat("x", 64)
	tmpl.Status.Versions = &aggregationv1alpha1.TemplateVersions{Items: make([]aggregationv1alpha1.CoderTemplateVersion, 1)}
	if diff := cmp.Diff(map[string]string{aggregationv1alpha1.LabelOrganization: "coder"}, objectsOf(tmpl, "")[0].Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}
