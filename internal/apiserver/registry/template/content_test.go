package template

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"sigs.k8s.io/controller-runtime/pkg/log"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

const withVariables = `
variable "region" {
  default = "south"
}
variable "password" {
  sensitive = true
}
`

func (f *fixture) variables(name string) map[string]string {
	f.t.Helper()
	id, err := uuid.Parse(f.get(name).Status.ActiveVersionID)
	f.must(err)
	return f.coder.VariableValues(id)
}

// TestASecretGoesToCoderAndNowhereElse searches all records, objects and logs for its value.
func TestASecretGoesToCoderAndNowhereElse(t *testing.T) {
	f := newFixture(t)
	var logged bytes.Buffer
	f.ctx = log.IntoContext(f.ctx, funcr.New(func(prefix, args string) { logged.WriteString(prefix + args) }, funcr.Options{Verbosity: 9}))
	const value, next = "hunter2-very-secret", "correct-horse-battery"
	f.secrets["db/password"] = value
	f.must(f.create("coder.docker", aggregationv1alpha1.CoderTemplateSpec{
		Files: map[string]string{mainTF: withVariables}, Variables: variableFrom("db"),
	}))
	f.sync()
	f.mustBe("coder.docker", "True Active", withVariables)
	if diff := cmp.Diff(map[string]string{"region": "north", "password": value}, f.variables("coder.docker")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	count := f.coder.VersionCount()
	f.clock.Step(2 * rotationInterval)
	f.sync()
	if n := f.coder.VersionCount(); n != count {
		t.Errorf("%d versions after %d, and nothing changed", n, count)
	}

	f.secrets["db/password"] = next
	f.clock.Step(2 * rotationInterval)
	f.sync()
	if got := f.variables("coder.docker")["password"]; got != next || f.coder.VersionCount() != count+1 {
		t.Errorf("after the Secret has changed: %d versions after %d, active has %q", f.coder.VersionCount(), count, got)
	}
	// A deleted Secret changes nothing, but no new version can be created.
	delete(f.secrets, "db/password")
	f.clock.Step(2 * rotationInterval)
	f.sync()
	f.mustBe("coder.docker", "True Active", withVariables)
	mustBeInvalid(t, f.update("coder.docker", files("# other")), "spec.variables[1].valueFrom.secretKeyRef", "db")

	all, err := json.Marshal([]any{f.log, f.records.List(controlPlane)})
	f.must(err)
	for _, secret := range []string{value, next} {
		if strings.Contains(string(all), secret) || strings.Contains(logged.String(), secret) {
			t.Errorf("the value of the Secret is told: %s %s", all, logged.String())
		}
	}
	if !strings.Contains(logged.String(), "because a Secret changed") {
		t.Errorf("the log tells nothing: %s", logged.String())
	}
}

// TestWhoMayReadTheSecret covers all changes that create a version: files can print the value of a
// variable.
func TestWhoMayReadTheSecret(t *testing.T) {
	f := newFixture(t)
	f.secrets["db/password"] = "x"
	f.must(f.create("coder.docker", aggregationv1alpha1.CoderTemplateSpec{
		Files: map[string]string{mainTF: withVariables}, Variables: variableFrom("db"),
	}))
	f.sync()
	f.denied["db"] = true
	path := "spec.variables[1].valueFrom.secretKeyRef.name"
	for what, change := range map[string]func(*aggregationv1alpha1.CoderTemplate){
		"files":     files("output x"),
		"variables": func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Spec.Variables[0].Value = "west" },
		"tags": func(tmpl *aggregationv1alpha1.CoderTemplate) {
			tmpl.Spec.ProvisionerTags = map[string]string{"mine": "yes"}
		},
	} {
		t.Run(what, func(t *testing.T) { mustBeInvalid(t, f.update("coder.docker", change), path, "may not get Secret db") })
	}
	mustBeInvalid(t, f.create("coder.other", aggregationv1alpha1.CoderTemplateSpec{
		Files: map[string]string{mainTF: withVariables}, Variables: variableFrom("db"),
	}), path, "may not get Secret db")
	// A change that creates no version needs no Secret. Neither does removing the variable.
	f.must(f.update("coder.docker", func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Spec.DisplayName = "Mine" }))
	f.must(f.update("coder.docker", func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Spec.Variables = nil }))
}

func TestWhatTheSpecDoesNotNameStays(t *testing.T) {
	f := newFixture(t)
	file := f.coder.AddFile(map[string]string{mainTF: `
variable "region" {
  default = "south"
}
variable "size" {
  default = "s"
}
`})
	for _, zone := range []string{"a", "b"} {
		f.coder.AddProvisionerKey("coder", zone, map[string]string{"zone": zone})
		f.coder.AddProvisionerDaemon("coder", zone, zone)
	}
	made, err := f.watcher.CreateTemplateVersion(f.ctx, f.coder.OrganizationID("coder"), coderd.NewTemplateVersion{
		TemplateID: &f.starter, FileID: file, Variables: []coderd.Variable{{Name: "region", Value: "east"}, {Name: "size", Value: "xl"}},
		Tags: map[string]string{"zone": "a"},
	})
	f.must(err)
	f.coder.FinishBuilds()
	f.must(f.watcher.SetActiveVersion(f.ctx, f.starter, made.ID))
	f.sync()
	spec := func(change func(spec *aggregationv1alpha1.CoderTemplateSpec)) {
		t.Helper()
		f.must(f.update("coder.starter", func(tmpl *aggregationv1alpha1.CoderTemplate) { change(&tmpl.Spec) }))
		// No provisioner has these tags, so the build must be finished explicitly.
		f.build()
	}
	want := func(values, tags map[string]string) {
		t.Helper()
		if diff := cmp.Diff(values, f.variables("coder.starter")); diff != "" {
			t.Errorf("variables (-want +got):\n%s", diff)
		}
		versions, err := f.watcher.TemplateVersions(f.ctx, f.starter)
		f.must(err)
		if diff := cmp.Diff(tags, givenTags(versions[len(versions)-1].ProvisionerTags)); diff != "" {
			t.Errorf("tags (-want +got):\n%s", diff)
		}
	}
	variable := func(name, value string) []aggregationv1alpha1.TemplateVariable {
		return []aggregationv1alpha1.TemplateVariable{{Name: name, Value: value}}
	}
	spec(func(s *aggregationv1alpha1.CoderTemplateSpec) { s.Files["readme.md"] = "# more" })
	want(map[string]string{"region": "east", "size": "xl"}, map[string]string{"zone": "a"})
	spec(func(s *aggregationv1alpha1.CoderTemplateSpec) { s.Variables = variable("size", "m") })
	want(map[string]string{"region": "east", "size": "m"}, map[string]string{"zone": "a"})
	spec(func(s *aggregationv1alpha1.CoderTemplateSpec) {
		s.Variables, s.ProvisionerTags = nil, map[string]string{"zone": "b"}
	})
	want(map[string]string{"region": "east", "size": "s"}, map[string]string{"zone": "b"})
	spec(func(s *aggregationv1alpha1.CoderTemplateSpec) { s.ProvisionerTags = nil })
	want(map[string]string{"region": "east", "size": "s"}, nil)
	if got := f.get("coder.starter"); len(got.Spec.Files) != 2 || len(got.Spec.Variables) != 0 {
		t.Errorf("%+v", got.Spec)
	}
}

func TestVersionsWithoutAProvisionerSaySo(t *testing.T) {
	f := newFixture(t, coderdtest.WithManualBuilds())
	f.must(f.update("coder.starter", func(tmpl *aggregationv1alpha1.CoderTemplate) {
		tmpl.Spec.ProvisionerTags = map[string]string{"zone": "nowhere"}
	}))
	message := ""
	for _, c := range f.get("coder.starter").Status.Conditions {
		if c.Type == "Ready" {
			message = c.Message
		}
	}
	if !strings.Contains(message, "no provisioner has its tags") || !strings.Contains(message, "zone:nowhere") {
		t.Errorf("Ready says %q", message)
	}
}

func TestHash(t *testing.T) {
	file := uuid.New()
	a := content{file: file, variables: []coderd.Variable{{Name: "a", Value: "1"}, {Name: "b", Value: "2"}}, tags: map[string]string{"x": "y"}}
	b := content{file: file, variables: []coderd.Variable{{Name: "b", Value: "2"}, {Name: "a", Value: "1"}}, tags: map[string]string{"x": "y"}}
	if a.hash("salt") != b.hash("salt") {
		t.Error("the order of variables counts")
	}
	for name, other := range map[string]content{
		"file":     {file: uuid.New(), variables: a.variables, tags: a.tags},
		"variable": {file: file, variables: a.variables[:1], tags: a.tags},
		"tags":     {file: file, variables: a.variables},
	} {
		if a.hash("salt") == other.hash("salt") {
			t.Errorf("another %s has the same hash", name)
		}
	}
	if a.hash("salt") == a.hash("pepper") {
		t.Error("the salt does not count")
	}
}
