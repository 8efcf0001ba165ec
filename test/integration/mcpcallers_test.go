package integration

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/tools"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// userRoles returns the user roles and the Kubernetes roles to which they are
// aggregated. The rules of the latter are in ClusterRoles of this form, because no
// controller aggregates them here.
func userRoles(levels ...string) []string {
	var roles []string
	for _, level := range levels {
		roles = append(roles, "coder-k8s-"+level, "system:aggregate-to-"+level)
	}
	return roles
}

// usualTools are the tools that a server offers without flags. Those of toolset inside
// need an agent that runs commands.
func usualTools() []toolset.Definition {
	return slices.DeleteFunc(tools.All().Definitions(), func(d toolset.Definition) bool { return d.Toolset == toolset.Inside })
}

// namesOf returns the names of the tools for which ok returns true.
func namesOf(ok func(toolset.Definition) bool) []string {
	var names []string
	for _, d := range usualTools() {
		if ok(d) {
			names = append(names, d.Name)
		}
	}
	slices.Sort(names) // As clients see them.
	return names
}

// callersSeeWhatIsTheirs checks that the user roles are sufficient for their tools,
// and that callers cannot read or change anything in namespaces without a role.
func (s *mcpFixture) callersSeeWhatIsTheirs(t *testing.T) {
	all := namesOf(func(toolset.Definition) bool { return true })
	// This tool changes nothing, and needs only its object.
	reading := namesOf(func(d toolset.Definition) bool { return d.Effect == toolset.Reads || d.Name == "set_template_running" })
	levels := map[string]struct{ roles, tools, refused []string }{
		"view":  {userRoles("view"), reading, namesOf(func(d toolset.Definition) bool { return !slices.Contains(reading, d.Name) })},
		"edit":  {userRoles("view", "edit"), all, nil},
		"admin": {userRoles("view", "edit", "admin"), all, nil},
		"none":  {nil, nil, namesOf(func(d toolset.Definition) bool { return d.Name != "check_health" })},
	}
	rows := s.toolCalls()
	callers := map[string]mcpCaller{}
	for level, of := range levels {
		callers[level] = s.newCaller(t, s.operator, level)
		for _, role := range of.roles {
			s.grantRole(t, level, role, s.namespaces()...)
		}
	}
	s.granted(t)
	for level, of := range levels {
		t.Run(level, func(t *testing.T) {
			from, session := auditSize(t), callers[level].connect(t)
			for _, name := range of.tools {
				if level == "edit" && name == "change_control_plane" {
					continue // Some of these calls are refused, see below.
				}
				for _, call := range rows[name](t) {
					answer := session.do(t, name, call)
					if call.arguments["orphan"] == true {
						// That needs a role of its own.
						if err := refusedForRights(answer); err != nil {
							t.Errorf("of the call of %s with %v: %v", name, call.arguments, err)
						}
					} else if fails(answer) {
						t.Errorf("the call of %s with %v is answered: %s", name, call.arguments, sentenceOf(answer))
					}
				}
			}
			for _, name := range of.refused {
				for _, call := range rows[name](t) {
					if err := refusedForRights(session.do(t, name, call)); err != nil {
						t.Errorf("of the call of %s with %v: %v", name, call.arguments, err)
					}
				}
			}
			for _, r := range requestsAs(t, from, callers[level].user) {
				if len(of.refused) == 0 && r.lacksRight() && !r.looksEverywhereFirst() && r.ObjectRef.Subresource != "orphan" {
					t.Errorf("the roles lack a right: %s", r)
				}
				if len(of.roles) == 0 && r.ResponseStatus.Code < 300 && r.ObjectRef.APIGroup != "authorization.k8s.io" && r.ObjectRef.Resource != "" {
					t.Errorf("somebody without a role is answered: %s", r)
				}
			}
		})
	}
	t.Run("an editor restarts and scales, and no more", func(t *testing.T) {
		session := callers["edit"].connect(t)
		for _, call := range s.changeCalls(t) {
			answer := session.do(t, "change_control_plane", call)
			if _, image := call.arguments["image"]; image != answer.IsError {
				t.Errorf("the call with %v is answered: %s", call.arguments, textOf(answer))
			}
		}
	})
	t.Run("a namespace of others", func(t *testing.T) { s.othersAreOutOfReach(t) })
}

// othersAreOutOfReach checks that the admin of one namespace cannot read or change
// anything in another one.
func (s *mcpFixture) othersAreOutOfReach(t *testing.T) {
	for _, role := range userRoles("view", "edit", "admin") {
		s.grantRole(t, "neighbour", role, s.other)
	}
	s.granted(t)
	caller := s.newCaller(t, s.operator, "neighbour")
	session := caller.connect(t)
	all := map[string][]toolCall{}
	for name, row := range s.toolCalls() {
		if name != "change_control_plane" && name != "check_health" {
			all[name] = row(t)
		}
	}
	all["change_control_plane"] = []toolCall{{map[string]any{"namespace": s.ns, "name": "coder", "replicas": 7, "confirm": "coder"}, nil}}
	for _, name := range []string{"list_control_planes", "list_provisioners", "list_workspace_proxies", "list_workspaces", "list_templates"} {
		all[name] = append(all[name], toolCall{arguments: map[string]any{}})
	}
	from, before, writes := auditSize(t), contents(t, s.ns), s.coder.Writes()
	for name, calls := range all {
		for _, call := range calls {
			if ns := call.arguments["namespace"]; ns == s.other || ns == s.away {
				continue
			}
			if err := refusedForRights(session.do(t, name, call)); err != nil {
				t.Errorf("of the call of %s with %v: %v", name, call.arguments, err)
			}
		}
	}
	for _, prompt := range s.prompts() {
		if answer, err := session.GetPrompt(t.Context(), prompt); err == nil {
			t.Errorf("prompt %s tells %+v", prompt.Name, answer.Messages)
		}
	}
	changesNothing(t, from, caller.user)
	if diff := cmp.Diff(before, contents(t, s.ns)); diff != "" || s.coder.Writes() != writes {
		t.Errorf("something was changed in another namespace, and %d requests that change something came to its Coder (-want +got):\n%s", s.coder.Writes()-writes, diff)
	}
	for _, r := range requestsAs(t, from, caller.user) {
		if r.ResponseStatus.Code < 300 && (r.ObjectRef.Namespace == s.ns || r.ObjectRef.Namespace == "" && r.Verb == "list") {
			t.Errorf("this is answered: %s", r)
		}
	}
}
