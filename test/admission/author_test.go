package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/author"
)

// The permissions of tenants.
const (
	// writes are all permissions of the tenant in the attack.
	writes = "{apiGroups: [rbac.authorization.k8s.io], resources: [roles, rolebindings], verbs: [create]}"
	// pods and basics are what the operator grants for workspaces.
	pods   = writes + `, {apiGroups: [""], resources: [pods, persistentvolumeclaims], verbs: [get, list, watch, create, update, patch, delete, deletecollection]}`
	basics = pods + ", {apiGroups: [apps], resources: [deployments], verbs: [get, list, watch, create, update, patch, delete, deletecollection]}"
)

// TestAnAuthorGrantsNoMoreThanItHolds: a tenant creates a control plane, and the
// operator checks what it may grant for it. OTHER in the spec is a further namespace.
func TestAnAuthorGrantsNoMoreThanItHolds(t *testing.T) {
	policies(t, "")
	many := strings.TrimSuffix(strings.Repeat("v,", 100), ",")
	for _, test := range []struct {
		name string
		// own and other are the rules of the tenant in the two namespaces.
		own, other string
		spec       string
		in         string
		// says is a part of the error; if it is empty, the permissions are granted.
		says string
	}{
		{name: "the attack: reads Secrets in its own namespace", own: basics, spec: extra("secrets", "get"), says: "does not hold what it grants: get secrets;"},
		{name: "the attack: reads Secrets in another", own: basics + "," + core("secrets", "'*'"), other: basics, in: "other",
			spec: "{workspaceNamespaces: [OTHER], extraRules: [" + core("secrets", "get") + "]}", says: "get secrets;"},
		{name: "the attack: through the rules of one namespace", own: basics, other: basics, in: "other",
			spec: "{namespaces: [{name: OTHER, extraRules: [" + core("secrets", "get") + "]}]}", says: "get secrets;"},
		{name: "only Roles and RoleBindings", own: writes, spec: "{}", says: "get pods, list pods, watch pods, create pods, update pods;"},
		{name: "the rights of workspaces", own: basics, spec: "{}"},
		{name: "no right to Deployments", own: pods, spec: "{}", says: "deployments.apps"},
		{name: "no right to Deployments, and none granted", own: pods, spec: "{enableDeployments: false}"},
		{name: "held", own: basics + "," + core("secrets", "get, list"), spec: extra("secrets", "get")},
		{name: "held in part", own: basics + "," + core("secrets", "get, list"), spec: extra("secrets", "get, watch"), says: ": watch secrets;"},
		{name: "every verb, held one by one", own: basics + "," + core("secrets", "get, list, watch, create, update, patch, delete"), spec: extra("secrets", "'*'"), says: ": * secrets;"},
		{name: "every verb", own: basics + "," + core("secrets", "'*'"), spec: extra("secrets", "'*'")},
		{name: "every resource", own: basics + "," + core("secrets", "get"), spec: extra("'*'", "get"), says: ": get *;"},
		{name: "one of every resource", own: basics + "," + core("'*'", "get"), spec: extra("secrets", "get")},
		{name: "every group", own: basics + "," + core("secrets", "get"), spec: "{extraRules: [{apiGroups: ['*'], resources: [secrets], verbs: [get]}]}", says: ": get secrets.*;"},
		{name: "a subresource", own: basics, spec: extra("pods/exec", "create"), says: ": create pods/exec;"},
		{name: "a subresource that is held", own: basics + "," + core("'*/exec'", "create"), spec: extra("pods/exec", "create")},
		{name: "the name that is held", own: basics + "," + named("db", "get"), spec: "{extraRules: [" + named("db", "get") + "]}"},
		{name: "another name", own: basics + "," + named("db", "get"), spec: "{extraRules: [" + named("admin", "get") + "]}", says: `: get secrets "admin";`},
		{name: "all names, held for one", own: basics + "," + named("db", "get"), spec: extra("secrets", "get"), says: ": get secrets;"},
		{name: "one name, held for all", own: basics + "," + core("secrets", "get"), spec: "{extraRules: [" + named("db", "get") + "]}"},
		{name: "may escalate and bind", own: escalate("escalate, bind"), spec: extra("secrets", "'*'")},
		{name: "may escalate only", own: basics + "," + escalate("escalate"), spec: extra("secrets", "get"), says: ": get secrets;"},
		{name: "may bind only", own: basics + "," + escalate("bind"), spec: extra("secrets", "get"), says: ": get secrets;"},
		{name: "may escalate in its own namespace only", own: escalate("escalate, bind"), other: writes, in: "other", spec: "{workspaceNamespaces: [OTHER]}", says: "does not hold"},
		{name: "a namespace of others", own: basics, in: "other", spec: "{workspaceNamespaces: [OTHER]}", says: "may not create roles;"},
		{name: "holds, but may not grant there", own: basics, other: strings.TrimPrefix(basics, writes+", "), in: "other", spec: "{workspaceNamespaces: [OTHER]}", says: "may not create roles;"},
		{name: "may grant there", own: basics, other: basics, in: "other", spec: "{workspaceNamespaces: [OTHER]}"},
		{name: "rules without end", own: basics, says: "more than 1000 single rights",
			spec: "{extraRules: [{apiGroups: [" + many + "], resources: [" + many + "], verbs: [" + many + "], resourceNames: [" + many + "]}]}"},
	} {
		t.Run(test.name, func(t *testing.T) {
			spaces := map[string]string{"": namespace(t), "other": namespace(t)}
			for space, rules := range map[string]string{"": test.own + ", {apiGroups: [coder.com], resources: ['*'], verbs: ['*']}", "other": test.other} {
				permit(t, spaces[space], parsed(t, rules)...)
			}
			known(t, spaces["other"])
			o := object(t, controlPlane, spaces[""], "mine", "{rbac: "+strings.ReplaceAll(test.spec, "OTHER", spaces["other"])+"}")
			if err := as(t, "tenant").Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			if err := judge(author.Checker{Client: environment.client}.Check(t.Context(), o, grantOf(t, o, spaces[test.in])), test.says); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOtherAuthors checks that permissions of a group count, such as those of a GitOps
// controller's ServiceAccount, and that permissions that are already granted are not
// checked again.
func TestOtherAuthors(t *testing.T) {
	policies(t, "")
	ns := namespace(t)
	grantTo(t, ns, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:serviceaccounts:gitops"},
		parsed(t, basics+", {apiGroups: [coder.com], resources: ['*'], verbs: ['*']}")...)
	known(t, ns)
	checker := author.Checker{Client: environment.client}
	o := object(t, controlPlane, ns, "theirs", "{rbac: "+extra("configmaps", "get")+"}")
	if err := as(t, "system:serviceaccount:gitops:flux", "system:serviceaccounts", "system:serviceaccounts:gitops").Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	grant := grantOf(t, o, ns)
	if err := judge(checker.Check(t.Context(), o, grant), ": get configmaps;"); err != nil {
		t.Error(err)
	}
	grant.Granted = parsed(t, core("configmaps", "get, list"))
	if err := judge(checker.Check(t.Context(), o, grant), ""); err != nil {
		t.Error(err)
	}
	// An administrator of the cluster takes it over.
	o.SetAnnotations(map[string]string{coderv1alpha1.AnnotationRBACAuthor: "me"})
	if err := environment.client.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if err := judge(checker.Check(t.Context(), o, grantOf(t, o, ns)), ""); err != nil {
		t.Error(err)
	}
}

// TestAuthorsOfBackups checks that the user who changed the spec of a backup or its schedule last is the author, and that the operator
// recognizes the policy for both kinds.
func TestAuthorsOfBackups(t *testing.T) {
	policies(t, "")
	ns := namespace(t)
	permit(t, ns, parsed(t, "{apiGroups: [coder.com], resources: ['*'], verbs: ['*']}")...)
	known(t, ns)
	const destination = "destination: {cloudNativePG: {clusterName: db}}"
	grant := author.Grant{Field: "spec", Namespace: ns, Rules: parsed(t, "{apiGroups: [postgresql.cnpg.io], resources: [backups], verbs: [create]}")}
	checker := author.Checker{Client: environment.client}
	for kind, spec := range map[string]string{
		backup:   "{controlPlaneRef: {name: coder}, " + destination + "}",
		schedule: "{controlPlaneRef: {name: coder}, schedule: '@daily', template: {" + destination + "}}",
	} {
		o := object(t, kind, ns, "mine", spec)
		o.SetAnnotations(map[string]string{coderv1alpha1.AnnotationRBACAuthor: "boss\nsystem:masters"})
		if err := as(t, "tenant").Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if err := judge(checker.Check(t.Context(), o, grant), `user "tenant", who wrote spec, does not hold what it grants: create backups.postgresql.cnpg.io`); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		change := map[string]string{backup: `{"spec":{"activeDeadlineSeconds":60}}`, schedule: `{"spec":{"suspend":true}}`}[kind]
		for _, step := range []struct{ patch, says string }{
			{`{"metadata":{"finalizers":["coder.com/test"]}}`, `user "tenant"`}, {change, ""},
		} {
			if err := environment.client.Patch(t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(step.patch))); err != nil {
				t.Fatal(err)
			}
			if err := judge(checker.Check(t.Context(), o, grant), step.says); err != nil {
				t.Errorf("%s, after %s of an administrator: %v", kind, step.patch, err)
			}
		}
		o.SetFinalizers(nil)
		if err := environment.client.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTheOperatorIsTheAuthorOfItsBackups checks that the name with which the operator signs the CoderBackup of a schedule is the one that the
// policies accept, also on a cluster without MutatingAdmissionPolicies, and that its own permissions then count.
func TestTheOperatorIsTheAuthorOfItsBackups(t *testing.T) {
	create := parsed(t, "{apiGroups: [postgresql.cnpg.io], resources: [backups], verbs: [create]}")
	for _, without := range []string{"", "Mutating"} {
		t.Run("without "+without, func(t *testing.T) {
			policies(t, without)
			ns := namespace(t)
			const name = "system:serviceaccount:operators:coder-k8s"
			grantTo(t, ns, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name},
				append(parsed(t, "{apiGroups: [coder.com], resources: ['*'], verbs: ['*']}"), create...)...)
			known(t, ns)
			operator := as(t, name, "system:serviceaccounts", "system:serviceaccounts:operators")
			kit := framework.NewWith(operator, operator, nil, framework.Options{
				CheckAuthor: func(context.Context, client.Object, author.Grant) error { return nil },
			})
			scheduled := &coderv1alpha1.CoderBackupSchedule{}
			scheduled.Namespace, scheduled.Spec.ControlPlaneRef.Name = ns, "coder"
			scheduled.Spec.Template.Destination.CloudNativePG = &coderv1alpha1.CloudNativePGBackup{ClusterName: "db"}
			made := &coderv1alpha1.CoderBackup{}
			made.Name = "made"
			if err := kit.CreateBackup(t.Context(), scheduled, made); err != nil {
				t.Fatal(err)
			}
			if err := (author.Checker{Client: environment.client}).Check(t.Context(), made, author.Grant{Field: "spec", Namespace: ns, Rules: create}); err != nil {
				t.Errorf("with the author %q: %v", made.Annotations[coderv1alpha1.AnnotationRBACAuthor], err)
			}
		})
	}
}

// judge compares the result of a check with the expected error.
func judge(err error, says string) error {
	var refused *author.RefusedError
	switch {
	case says == "":
		return err
	case !errors.As(err, &refused) || refused.Unknown || !strings.Contains(err.Error(), says):
		return fmt.Errorf("the answer is %w, not a refusal that says %q", err, says)
	}
	return nil
}

// grantOf returns the permissions that the operator would grant for a control plane in a
// namespace.
func grantOf(t *testing.T, o *unstructured.Unstructured, ns string) author.Grant {
	t.Helper()
	cp := &coderv1alpha1.CoderControlPlane{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, cp); err != nil {
		t.Fatal(err)
	}
	role := resources.WorkspaceRole(resources.ControlPlane(cp, resources.Cluster{}), ns)
	return author.Grant{Namespace: ns, Role: role.Name, Rules: role.Rules}
}

func core(resources, verbs string) string {
	return `{apiGroups: [""], resources: [` + resources + "], verbs: [" + verbs + "]}"
}

func named(name, verbs string) string {
	return `{apiGroups: [""], resources: [secrets], resourceNames: [` + name + "], verbs: [" + verbs + "]}"
}

func escalate(verbs string) string {
	return "{apiGroups: [rbac.authorization.k8s.io], resources: [roles], verbs: [" + verbs + "]}"
}

func extra(resources, verbs string) string {
	return "{extraRules: [" + core(resources, verbs) + "]}"
}

func parsed(t *testing.T, rules string) []rbacv1.PolicyRule {
	t.Helper()
	var all []rbacv1.PolicyRule
	if err := yaml.Unmarshal([]byte("["+strings.TrimPrefix(rules, ", ")+"]"), &all); err != nil {
		t.Fatalf("%s: %v", rules, err)
	}
	return all
}
