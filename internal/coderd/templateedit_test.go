package coderd

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"

	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

// leftOut are the fields of Coder's request that are not sent: commands, and the deprecation
// message, which keeps its value if it is not sent.
var leftOut = []string{
	"update_workspace_last_used_at", "update_workspace_dormant_at", "disable_everyone_group_access", "deprecation_message",
}

// TestKeepPolicySendsEveryField fails if a new version of Coder's client library has a field that
// keepPolicy does not set, or if a field with a zero value is not sent.
func TestKeepPolicySendsEveryField(t *testing.T) {
	var full codersdk.Template
	fill(t, reflect.ValueOf(&full).Elem(), "")
	for name, held := range map[string]codersdk.Template{"full": full, "zero": {}} {
		t.Run(name, func(t *testing.T) {
			request, err := keepPolicy(held)
			if err != nil {
				t.Fatal(err)
			}
			template, sent := asJSON(t, held), asJSON(t, request)
			wanted := reflect.TypeFor[codersdk.UpdateTemplateMeta]()
			for i := range wanted.NumField() {
				field, _, _ := strings.Cut(wanted.Field(i).Tag.Get("json"), ",")
				value, isSent := sent[field]
				switch {
				case slices.Contains(leftOut, field):
					if isSent {
						t.Errorf("%s is sent", field)
					}
				case !isSent:
					t.Errorf("%s is not sent", field)
				default:
					if diff := cmp.Diff(template[field], value); diff != "" {
						t.Errorf("%s (-held +sent):\n%s", field, diff)
					}
				}
			}
		})
	}
}

func asJSON(t *testing.T, value any) map[string]any {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// fill sets every field to a value other than zero.
func fill(t *testing.T, v reflect.Value, name string) {
	t.Helper()
	switch {
	case v.Type() == reflect.TypeFor[uuid.UUID]():
		v.Set(reflect.ValueOf(uuid.New()))
	case v.Kind() == reflect.Struct && v.Type().PkgPath() != "time":
		for i := range v.NumField() {
			fill(t, v.Field(i), v.Type().Field(i).Name)
		}
	case v.Kind() == reflect.String:
		v.SetString("some " + name)
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(7)
	case v.Type() == reflect.TypeFor[[]string]():
		v.Set(reflect.ValueOf([]string{"monday"}))
	case v.Kind() == reflect.Map, v.Kind() == reflect.Struct:
		// Counts and times are not part of the policy.
	default:
		t.Fatalf("no value for %s of type %s", name, v.Type())
	}
}

func TestUpdateTemplateResetsNothing(t *testing.T) {
	unusual := map[string]any{
		"display_name": "Title", "description": "Text", "icon": "/icon/k8s.png",
		"default_ttl_ms": 7200000, "activity_bump_ms": 60000,
		"autostop_requirement":  map[string]any{"days_of_week": []string{"sunday"}, "weeks": 3},
		"autostart_requirement": map[string]any{"days_of_week": []string{"monday", "friday"}},
		"allow_user_autostart":  true, "allow_user_autostop": true, "allow_user_cancel_workspace_jobs": true,
		"failure_ttl_ms": 120000, "time_til_dormant_ms": 180000, "time_til_dormant_autodelete_ms": 240000,
		"require_active_version": true, "deprecated": true, "deprecation_message": "use another",
		"max_port_share_level": "owner", "cors_behavior": "passthru", "use_classic_parameter_flow": true,
	}
	value := "Changed"
	empty := ""
	for _, test := range []struct {
		name string
		edit TemplateEdit
		want map[string]any
	}{
		{"display name", TemplateEdit{DisplayName: &value}, map[string]any{"display_name": value}},
		{"description", TemplateEdit{Description: &value}, map[string]any{"description": value}},
		{"icon", TemplateEdit{Icon: &value}, map[string]any{"icon": value}},
		{"all", TemplateEdit{DisplayName: &value, Description: &value, Icon: &value}, map[string]any{"display_name": value, "description": value, "icon": value}},
		{"to nothing", TemplateEdit{DisplayName: &empty}, map[string]any{"display_name": ""}},
		{"default TTL", TemplateEdit{DefaultTTL: new(3 * time.Hour)}, map[string]any{"default_ttl_ms": 10800000.0}},
		{"no default TTL", TemplateEdit{DefaultTTL: new(time.Duration(0))}, map[string]any{"default_ttl_ms": 0.0}},
		{"activity bump", TemplateEdit{ActivityBump: new(time.Duration(0))}, map[string]any{"activity_bump_ms": 0.0}},
		{"cancel", TemplateEdit{AllowUserCancelWorkspaceJobs: new(false)}, map[string]any{"allow_user_cancel_workspace_jobs": false}},
		{"CORS", TemplateEdit{CORSBehavior: new("simple")}, map[string]any{"cors_behavior": "simple"}},
		{"parameters", TemplateEdit{UseClassicParameterFlow: new(false)}, map[string]any{"use_classic_parameter_flow": false}},
		{"the same policy", TemplateEdit{
			DefaultTTL: new(2 * time.Hour), ActivityBump: new(time.Minute), AllowUserCancelWorkspaceJobs: new(true),
			CORSBehavior: new("passthru"), UseClassicParameterFlow: new(true),
		}, nil},
		{"none", TemplateEdit{}, nil},
	} {
		for _, release := range coderdtest.Releases() {
			t.Run(test.name+" on "+string(release), func(t *testing.T) {
				checkEdit(t, release, unusual, test.edit, test.want)
			})
		}
	}
}

// checkEdit edits a template with the given fields and checks that exactly the
// wanted fields change.
func checkEdit(t *testing.T, release coderdtest.Release, fields map[string]any, edit TemplateEdit, changes map[string]any) {
	t.Helper()
	server := coderdtest.New(t, coderdtest.WithRelease(release))
	client, err := New(Config{URL: server.URL, Token: server.AddUser("ada", "owner")})
	if err != nil {
		t.Fatal(err)
	}
	id := server.AddTemplate("coder", "small", nil)
	server.PatchTemplate(t, id, fields)
	want := server.TemplateFields(id)
	server.ResetRequests()
	updated, err := client.UpdateTemplate(t.Context(), id, edit)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(want, changes)
	got := server.TemplateFields(id)
	if changes != nil {
		delete(want, "updated_at")
		delete(got, "updated_at")
	} else if writes := server.Writes(); writes != 0 {
		t.Errorf("%d writes for no change", writes)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("template (-want +got):\n%s", diff)
	}
	if updated.DisplayName != got["display_name"] || updated.Deprecated != got["deprecated"] || updated.DeprecationMessage != got["deprecation_message"] {
		t.Errorf("answer: %+v", updated)
	}
}

func TestUpdateTemplateThatSomebodyElseMadeIsDone(t *testing.T) {
	server := coderdtest.New(t)
	client, err := New(Config{URL: server.URL, Token: server.AddUser("ada", "owner")})
	if err != nil {
		t.Fatal(err)
	}
	id := server.AddTemplate("coder", "small", nil)
	server.Fail(coderdtest.Fault{Method: "PATCH", Status: 304})
	value := "Title"
	if _, err := client.UpdateTemplate(t.Context(), id, TemplateEdit{DisplayName: &value}); err != nil {
		t.Error(err)
	}
}

func TestTemplatesListsDeprecatedOnesToo(t *testing.T) {
	server := coderdtest.New(t)
	client, err := New(Config{URL: server.URL, Token: server.AddUser("ada", "owner")})
	if err != nil {
		t.Fatal(err)
	}
	server.AddTemplate("coder", "new", nil)
	server.PatchTemplate(t, server.AddTemplate("coder", "old", nil), map[string]any{"deprecated": true, "deprecation_message": "old"})
	server.DeleteTemplate(server.AddTemplate("coder", "gone", nil))
	templates, err := client.Templates(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, template := range templates {
		got[template.Name] = template.Deprecated
	}
	if diff := cmp.Diff(map[string]bool{"new": false, "old": true}, got); diff != "" {
		t.Errorf("deprecated (-want +got):\n%s", diff)
	}
}
