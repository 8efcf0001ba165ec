//go:build e2e

package e2e

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const operatorUser = "coder-k8s-operator"

// actingCaller is a Kubernetes user.
type actingCaller struct {
	name string
	// rule is the rule of spec.identity for the caller, or empty.
	rule string
	// clusterRole is the caller's role in the namespace.
	clusterRole string
	// permissions are the names on which the caller has the verb impersonate, by resource.
	permissions map[string][]string
	// whoami is a part of the output of kubectl coder whoami for the caller.
	whoami string
	// may is the expected result of a build of the workspaces of alice, bob and admin: the
	// initiator in Coder, or "no: " and a part of the error.
	may [3]string
}

var actingOwners = [3]string{"alice", "bob", "admin"}

const (
	noRule = "no: needs the verb impersonate on coderusers "
	asOwn  = "no: needs the verb impersonate on coderusers/owner"
)

// actingCallers is the table of who may change whose workspaces.
var actingCallers = []actingCaller{
	{name: "alice", rule: "coderUser: {username: alice}", whoami: "Coder user alice", may: [3]string{"alice", `no: user "alice"`, `no: user "alice"`}},
	{name: "bob", rule: "coderUser: {email: bob@example.com}", whoami: "Coder user bob", may: [3]string{`no: user "bob"`, "bob", `no: user "bob"`}},
	{
		name: "root", rule: "coderUser: {username: admin}", permissions: map[string][]string{"coderusers/owner": {"admin"}},
		whoami: "Coder user admin", may: [3]string{"admin", "admin", "admin"},
	},
	{name: "would-be-root", rule: "coderUser: {username: admin}", whoami: "admin", may: [3]string{asOwn, asOwn, asOwn}},
	{name: "gitops", rule: "operator: true", whoami: "the operator", may: [3]string{operatorUser, operatorUser, operatorUser}},
	{
		name: "banned", rule: "nobody: true", whoami: "nobody",
		may: [3]string{"no: denies all changes and all sessions", "no: denies all changes and all sessions", "no: denies all changes and all sessions"},
	},
	{name: "carol", whoami: "unmapped", may: [3]string{noRule, noRule, noRule}},
	{
		name: "helper", permissions: map[string][]string{"coderusers": {"bob", "admin"}},
		whoami: "unmapped", may: [3]string{noRule, operatorUser, asOwn},
	},
	{
		name: "superhelper", permissions: map[string][]string{"coderusers": {"alice", "bob", "admin"}, "coderusers/owner": {"admin"}},
		whoami: "unmapped", may: [3]string{operatorUser, operatorUser, operatorUser},
	},
	{
		name: "lost", rule: "coderUser: {username: nobody-there}", whoami: "refused",
		may: [3]string{`no: no user "nobody-there"`, `no: no user "nobody-there"`, `no: no user "nobody-there"`},
	},
	{name: "spectator", rule: "coderUser: {username: alice}", clusterRole: "view", whoami: "Coder user alice", may: [3]string{"no: spectator", "no: spectator", "no: spectator"}},
}

// actingWays are the ways to start or stop a workspace. Each returns the output, and
// whether the request was refused.
var actingWays = []struct {
	name string
	act  func(t *testing.T, caller robot, a *assistant, object string, start bool) (said string, refused bool)
}{
	{"kubectl", func(t *testing.T, caller robot, _ *assistant, object string, start bool) (string, bool) {
		replicas := map[bool]string{true: "1", false: "0"}[start]
		out, err := tryKubectl(t, "--as="+caller.user(), "-n", sampleNamespace, "scale", "cws", object, "--replicas="+replicas)
		return out, err != nil
	}},
	{"kubectl coder", func(t *testing.T, caller robot, _ *assistant, object string, start bool) (string, bool) {
		args := map[bool][]string{true: {"start"}, false: {"stop", "--yes"}}[start]
		out, errs, code := coder(t, append(args, "--as="+caller.user(), "-n", sampleNamespace, object)...)
		return out + errs, code != 0
	}},
	{"MCP", func(t *testing.T, _ robot, a *assistant, object string, start bool) (string, bool) {
		result := a.call(t, "set_workspace_running", map[string]any{"name": object, "running": start, "confirm": object})
		return words(result), result.IsError
	}},
}

// testActing checks actingCallers against the real Coder, in each of actingWays: a caller
// that is not refused is the initiator of the build.
func testActing(t *testing.T) {
	explain(t, sampleNamespace)
	withPlugin(t)
	client := login(t, sampleNamespace, "coder")
	organization, err := client.OrganizationByName(t.Context(), "coder")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range actingOwners[:2] {
		_, err := client.CreateUser(t.Context(), coderd.NewUser{
			Username: name, Email: name + "@example.com", Password: "Not-a-secret-1", OrganizationIDs: []uuid.UUID{organization.ID},
		})
		if err != nil && !coderd.IsConflict(err) {
			t.Fatal(err)
		}
	}
	robots, assistants := map[string]robot{}, map[string]*assistant{}
	var rules []string
	for _, caller := range actingCallers {
		role := caller.clusterRole
		if role == "" {
			role = "edit"
		}
		for resource, names := range caller.permissions {
			permit(t, "e2e-"+caller.name, resource, names)
		}
		r := newAccount(t, sampleNamespace, "e2e-"+caller.name, role)
		robots[caller.name], assistants[caller.name] = r, r.connect(t, legacyProtocol, r.throughService(t), newDeeds())
		if caller.rule != "" {
			key, value, _ := strings.Cut(caller.rule, ": ")
			rules = append(rules, fmt.Sprintf("- match: {serviceAccount: {namespace: %s, name: %s}}\n  %s: %s", sampleNamespace, r.name, key, value))
		}
	}
	identify(t, rules)
	// The workspaces are created last, so that the watch of the rules is not behind them.
	for _, owner := range actingOwners {
		object := "coder." + owner + ".acting"
		apply(t, fmt.Sprintf(actingWorkspace, object))
		t.Cleanup(func() { cleanup("-n", sampleNamespace, "delete", "cws", object, "--ignore-not-found", "--timeout=5m") })
	}
	for _, owner := range actingOwners {
		waitCondition(t, "Ready", "True", "Running", "-n", sampleNamespace, "cws", "coder."+owner+".acting")
	}

	db := openDatabase(t, "coder")
	defer db.Close()
	for _, caller := range actingCallers {
		t.Run(caller.name, func(t *testing.T) {
			r := robots[caller.name]
			polltest.Eventually(t, "whoami says "+caller.whoami, func() error {
				out, errs, _ := coder(t, "whoami", "-n", sampleNamespace, "--as="+r.user())
				if !strings.Contains(out, caller.whoami) {
					return fmt.Errorf("it says %s%s", out, errs)
				}
				return nil
			})
			for i, owner := range actingOwners {
				for _, way := range actingWays {
					acted(t, db, way.name+": "+caller.name+" and the workspace of "+owner, owner, caller.may[i], func(start bool) (string, bool) {
						return way.act(t, r, assistants[caller.name], "coder."+owner+".acting", start)
					})
				}
			}
		})
	}
	t.Run("templates", func(t *testing.T) { testActingOnTemplates(t, robots) })
	t.Run("made and deleted", func(t *testing.T) { testActingOnNew(t, db, robots) })
	t.Run("no token stays", func(t *testing.T) {
		identify(t, nil)
		polltest.Eventually(t, "the tokens of people are revoked with the rules", func() error {
			if left := query(t, "coder", `SELECT count(*) FROM api_keys WHERE token_name LIKE 'coder-k8s-as-%'`); left != "0" {
				return fmt.Errorf("there are %s", left)
			}
			return nil
		})
	})
}

const actingWorkspace = `
apiVersion: aggregation.coder.com/v1alpha1
kind: CoderWorkspace
metadata: {name: %s, namespace: coder}
spec: {organization: coder, templateName: hello, running: true}
`

const actingPermission = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: %[2]s, namespace: %[1]s}
rules:
- {apiGroups: [aggregation.coder.com], resources: [%[3]s], resourceNames: [%[4]s], verbs: [impersonate]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: %[2]s, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %[2]s}
subjects: [{kind: ServiceAccount, name: %[5]s, namespace: %[1]s}]
`

// permit grants an account the virtual permission, and waits until kube-apiserver applies
// it.
func permit(t *testing.T, account, resource string, names []string) {
	t.Helper()
	role := account + "-" + strings.ReplaceAll(resource, "/", "-")
	apply(t, fmt.Sprintf(actingPermission, sampleNamespace, role, resource, strings.Join(names, ", "), account))
	t.Cleanup(func() {
		cleanup("-n", sampleNamespace, "delete", "role.rbac.authorization.k8s.io,rolebinding", role)
	})
	kind, subresource, _ := strings.Cut(resource, "/")
	review := fmt.Sprintf(actingReview, sampleNamespace, account, kind, subresource, names[0])
	polltest.Eventually(t, account+" has its permission", func() error {
		out, err := kubectlInput(t, review, "create", "-f", "-", "-o", "jsonpath={.status.allowed}")
		if err != nil || out != "true" {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// actingReview is a SubjectAccessReview; "kubectl auth can-i" supports only existing
// resources.
const actingReview = `
apiVersion: authorization.k8s.io/v1
kind: SubjectAccessReview
spec:
  user: system:serviceaccount:%[1]s:%[2]s
  resourceAttributes: {namespace: %[1]s, verb: impersonate, group: aggregation.coder.com, resource: %[3]s, subresource: %[4]q, name: %[5]s}
`

// identify sets the rules of the control plane, and removes them after the test.
func identify(t *testing.T, rules []string) {
	t.Helper()
	identity := "null"
	if len(rules) > 0 {
		identity = "\n    rules:\n    " + strings.ReplaceAll(strings.Join(rules, "\n"), "\n", "\n    ")
		t.Cleanup(func() {
			cleanup("-n", sampleNamespace, "patch", "codercontrolplane", "coder", "--type=merge", "-p", `{"spec":{"identity":null}}`)
		})
	}
	kubectl(t, "-n", sampleNamespace, "patch", "codercontrolplane", "coder", "--type=merge", "-p", "spec:\n  identity: "+identity)
}

// acted starts or stops a workspace, and checks the initiator in Coder, or that there was
// no build.
func acted(t *testing.T, db *sql.DB, row, owner, want string, act func(start bool) (said string, refused bool)) {
	t.Helper()
	before := newestBuild(t, db, owner)
	said, refused := act(before.Transition != "start")
	if text, no := strings.CutPrefix(want, "no: "); no {
		if after := newestBuild(t, db, owner); !refused || !strings.Contains(said, text) || after != before {
			t.Errorf("%s: refused: %t; build %+v, then %+v; it says %s\nwithout %q", row, refused, before, after, said, text)
		}
		return
	}
	if refused {
		t.Errorf("%s: refused: %s", row, said)
		return
	}
	polltest.Eventually(t, row+": the build has ended", func() error {
		if after := newestBuild(t, db, owner); after.Number == before.Number || after.Status != "succeeded" {
			return fmt.Errorf("it is %+v", after)
		}
		return nil
	})
	if after := newestBuild(t, db, owner); after.Number != before.Number+1 || after.Initiator != want {
		t.Errorf("%s: after %+v came %+v, not one of %s", row, before, after, want)
	}
}

// actingBuild is a build in Coder's database.
type actingBuild struct {
	Number                        int
	Transition, Status, Initiator string
}

// newestBuild returns the newest build of a user's workspace named acting, also if the
// workspace is deleted.
func newestBuild(t *testing.T, db *sql.DB, owner string) actingBuild {
	t.Helper()
	var b actingBuild
	row := queryOn(t, db, `SELECT json_build_object('number', b.build_number, 'transition', b.transition, 'status', j.job_status, 'initiator', i.username)
		FROM workspace_builds b JOIN workspaces w ON w.id = b.workspace_id JOIN users o ON o.id = w.owner_id JOIN users i ON i.id = b.initiator_id
		JOIN provisioner_jobs j ON j.id = b.job_id WHERE w.name = 'acting' AND o.username = '`+owner+`' ORDER BY b.created_at DESC LIMIT 1`)
	if err := json.Unmarshal([]byte(row), &b); err != nil {
		t.Fatalf("%v: %q", err, row)
	}
	return b
}

// testActingOnTemplates checks that users without a role in Coder may not change templates,
// and that unmapped callers need a separate permission.
func testActingOnTemplates(t *testing.T, robots map[string]robot) {
	for caller, want := range map[string]string{
		"alice": `user "alice"`, "bob": `user "bob"`, "root": "", "would-be-root": asOwn[4:], "gitops": "", "banned": "denies all changes and all sessions",
		"carol": "coderusers/operator", "helper": "coderusers/operator", "superhelper": "coderusers/operator", "lost": "nobody-there", "spectator": "spectator",
	} {
		out, err := tryKubectl(t, "--as="+robots[caller].user(), "-n", sampleNamespace, "patch", "ctpl", "coder.hello", "--type=merge",
			"-p", `{"spec":{"description":"Changed by `+caller+`."}}`)
		if (err == nil) != (want == "") || !strings.Contains(out, want) {
			t.Errorf("%s and a template: %v %s\nwithout %q", caller, err, out, want)
		}
		description := query(t, "coder", `SELECT description FROM templates WHERE name = 'hello' AND NOT deleted`)
		if (description == "Changed by "+caller+".") != (want == "") {
			t.Errorf("after %s, the template's description is %q", caller, description)
		}
	}
	kubectl(t, "apply", "-f", "../../config/samples/codertemplate.yaml")
	waitCondition(t, "Ready", "True", "", "-n", sampleNamespace, "codertemplate", "coder.hello")
}

// testActingOnNew deletes the workspaces of the test and creates them again.
func testActingOnNew(t *testing.T, db *sql.DB, robots map[string]robot) {
	for _, row := range []struct{ caller, owner, want string }{
		{"alice", "bob", `user "alice"`},
		{"bob", "alice", `user "bob"`},
		{"carol", "alice", noRule[4:]},
		{"banned", "alice", "denies all changes and all sessions"},
		{"would-be-root", "alice", asOwn[4:]},
		{"helper", "admin", asOwn[4:]},
		{"alice", "alice", ""},
		{"helper", "bob", ""},
		{"root", "admin", ""},
	} {
		object, as := "coder."+row.owner+".acting", "--as="+robots[row.caller].user()
		initiator := map[string]string{"alice": "alice", "helper": operatorUser, "root": "admin"}[row.caller]
		before := newestBuild(t, db, row.owner)
		out, err := tryKubectl(t, as, "-n", sampleNamespace, "delete", "cws", object, "--timeout=5m")
		after := newestBuild(t, db, row.owner)
		if row.want != "" {
			if err == nil || !strings.Contains(out, row.want) || after != before {
				t.Errorf("%s deletes %s: %v %s\nwithout %q; build %+v, then %+v", row.caller, object, err, out, row.want, before, after)
			}
			manifest := strings.Replace(fmt.Sprintf(actingWorkspace, "coder."+row.owner+".other"), "running: true", "running: false", 1)
			if out, err := kubectlInput(t, manifest, "create", as, "-f", "-"); err == nil || !strings.Contains(out, row.want) {
				t.Errorf("%s makes a workspace of %s: %v %s\nwithout %q", row.caller, row.owner, err, out, row.want)
			}
			continue
		}
		if err != nil || after.Transition != "delete" || after.Initiator != initiator {
			t.Errorf("%s deletes %s: %v %s; the newest build is %+v", row.caller, object, err, out, after)
		}
		if out, err := kubectlInput(t, fmt.Sprintf(actingWorkspace, object), "create", as, "-f", "-"); err != nil {
			t.Errorf("%s makes %s: %v %s", row.caller, object, err, out)
			continue
		}
		waitCondition(t, "Ready", "True", "Running", "-n", sampleNamespace, "cws", object)
		if made := newestBuild(t, db, row.owner); made.Transition != "start" || made.Initiator != initiator {
			t.Errorf("%s made %s with build %+v", row.caller, object, made)
		}
	}
	if n := query(t, "coder", `SELECT count(*) FROM workspaces WHERE name = 'other'`); n != "0" {
		t.Errorf("%s workspaces were made that were refused", n)
	}
}
