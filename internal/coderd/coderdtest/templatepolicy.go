package coderdtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"

	"github.com/coder/coder/v2/codersdk"
)

// patchTemplate changes the policy of a template, as a Coder with a license does. Before Coder 2.34
// it replaces the whole policy: an omitted number becomes 0 and an omitted boolean false, while any
// other field keeps its value if it is null.
func (s *Server) patchTemplate(r *request) {
	t := s.pathTemplate(r)
	r.needsRole("owner", "template-admin")
	var body codersdk.UpdateTemplateMeta
	if s.has(partialTemplatePatch) {
		// Fields that the body omits keep their values.
		_ = json.Unmarshal(encoded(t.Template), &body)
	}
	r.readInto(&body)
	s.checkPolicy(t, body)
	before := t.Template
	after := applyPolicy(before, body)
	if body.Name == before.Name && reflect.DeepEqual(before, after) {
		if s.has(partialTemplatePatch) {
			r.write(http.StatusOK, t.Template)
			return
		}
		r.w.WriteHeader(http.StatusNotModified)
		return
	}
	t.Template = after
	t.UpdatedAt = s.now()
	r.write(http.StatusOK, t.Template)
}

// checkNewPolicy validates the policy of a new template.
func (s *Server) checkNewPolicy(body codersdk.CreateTemplateRequest) {
	var problems []codersdk.ValidationError
	if body.DefaultTTLMillis != nil && *body.DefaultTTLMillis < 0 {
		problems = append(problems, codersdk.ValidationError{Field: "default_ttl_ms", Detail: "Must be a positive integer."})
	}
	if body.ActivityBumpMillis != nil && *body.ActivityBumpMillis < 0 {
		problems = append(problems, codersdk.ValidationError{Field: "activity_bump_ms", Detail: "Must be a positive integer."})
	}
	problems = append(problems, corsProblem(body.CORSBehavior)...)
	if len(problems) > 0 {
		refuse(http.StatusBadRequest, "Invalid create template request.", problems...)
	}
}

func corsProblem(behavior *codersdk.CORSBehavior) []codersdk.ValidationError {
	if behavior == nil || *behavior == codersdk.CORSBehaviorSimple || *behavior == codersdk.CORSBehaviorPassthru {
		return nil
	}
	return []codersdk.ValidationError{{
		Field: "cors_behavior", Detail: fmt.Sprintf("Invalid CORS behavior %q. Must be one of [simple, passthru]", *behavior),
	}}
}

func (s *Server) checkPolicy(t *template, body codersdk.UpdateTemplateMeta) {
	var fields validation
	fields.check(body.Name == "" || codersdk.NameValid(body.Name) == nil, "name", "template_name", body.Name)
	if body.DisplayName != nil {
		fields.check(codersdk.DisplayNameValid(*body.DisplayName) == nil, "display_name", "template_display_name", *body.DisplayName)
	}
	fields.refuse()
	var problems []codersdk.ValidationError
	atLeastZero := func(field string, value int64) {
		if value < 0 {
			problems = append(problems, codersdk.ValidationError{Field: field, Detail: "Must be a positive integer."})
		}
	}
	atLeastOneMinute := func(field string, value int64) {
		if value < 0 || value > 0 && value < 60000 {
			problems = append(problems, codersdk.ValidationError{Field: field, Detail: "Value must be at least one minute."})
		}
	}
	atLeastZero("default_ttl_ms", body.DefaultTTLMillis)
	atLeastZero("activity_bump_ms", body.ActivityBumpMillis)
	atLeastOneMinute("failure_ttl_ms", body.FailureTTLMillis)
	atLeastOneMinute("time_til_dormant_ms", body.TimeTilDormantMillis)
	atLeastOneMinute("time_til_dormant_autodelete_ms", body.TimeTilDormantAutoDeleteMillis)
	if body.CORSBehavior != nil && *body.CORSBehavior != "" {
		problems = append(problems, corsProblem(body.CORSBehavior)...)
	}
	if len(problems) > 0 {
		refuse(http.StatusBadRequest, "Invalid request to update template metadata!", problems...)
	}
	if other := s.templateNamed(t.OrganizationID, body.Name); other != nil && other != t {
		taken(fmt.Sprintf("Template with name %q already exists.", body.Name))
	}
}

func applyPolicy(t codersdk.Template, body codersdk.UpdateTemplateMeta) codersdk.Template {
	if body.Name != "" {
		t.Name = body.Name
	}
	keep(&t.DisplayName, body.DisplayName)
	keep(&t.Description, body.Description)
	keep(&t.Icon, body.Icon)
	keep(&t.AutostopRequirement, body.AutostopRequirement)
	keep(&t.AutostartRequirement, body.AutostartRequirement)
	keep(&t.MaxPortShareLevel, body.MaxPortShareLevel)
	keep(&t.CORSBehavior, body.CORSBehavior)
	keep(&t.UseClassicParameterFlow, body.UseClassicParameterFlow)
	keep(&t.DeprecationMessage, body.DeprecationMessage)
	t.Deprecated = t.DeprecationMessage != ""
	t.AutostopRequirement.Weeks = max(t.AutostopRequirement.Weeks, 1)
	t.DefaultTTLMillis = body.DefaultTTLMillis
	t.ActivityBumpMillis = body.ActivityBumpMillis
	t.FailureTTLMillis = body.FailureTTLMillis
	t.TimeTilDormantMillis = body.TimeTilDormantMillis
	t.TimeTilDormantAutoDeleteMillis = body.TimeTilDormantAutoDeleteMillis
	t.AllowUserAutostart = body.AllowUserAutostart
	t.AllowUserAutostop = body.AllowUserAutostop
	t.AllowUserCancelWorkspaceJobs = body.AllowUserCancelWorkspaceJobs
	t.RequireActiveVersion = body.RequireActiveVersion
	return t
}

func keep[T any](field *T, given *T) {
	if given != nil {
		*field = *given
	}
}
