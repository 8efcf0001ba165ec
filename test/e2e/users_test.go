//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// testUsers makes a user of a manifest, changes the user from both sides, moves the user by
// an export, and takes the user away. It needs the control plane of testMainJob.
func testUsers(t *testing.T) {
	client := login(t, sampleNamespace, "coder")
	user := []string{"-n", sampleNamespace, "coderuser", "zoe"}
	inCoder := func(what string, ok func(coderd.User) bool) {
		t.Helper()
		polltest.Eventually(t, what, func() error {
			u, err := client.UserByName(t.Context(), "zoe")
			if err == nil && !ok(u) {
				err = fmt.Errorf("%+v", u)
			}
			return err
		})
	}
	list := kubectl(t, "get", "coderusers", "-n", sampleNamespace, "-o", "wide")
	t.Logf("kubectl get coderusers\n%s", list)
	if !strings.Contains(list, "admin") || !strings.Contains(list, "owner") {
		t.Errorf("the list does not show the Owner admin:\n%s", list)
	}

	const password = "Correct-Horse-Battery-1"
	kubectl(t, "-n", sampleNamespace, "create", "secret", "generic", "zoe", "--from-literal=password="+password)
	t.Cleanup(func() { cleanup("-n", sampleNamespace, "delete", "secret", "zoe", "--ignore-not-found") })
	manifest := `apiVersion: aggregation.coder.com/v1alpha1
kind: CoderUser
metadata: {name: zoe, namespace: ` + sampleNamespace + `}
spec:
  email: zoe@example.com
  fullName: Zoe
  loginType: password
  passwordFrom: {secretKeyRef: {name: zoe, key: password}}
  roles: [auditor, template-admin]
  organizations: [{name: coder, roles: [organization-auditor]}]
`
	if out, err := kubectlInput(t, manifest, "apply", "--server-side", "-f", "-"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	waitCondition(t, "Ready", "True", "", user...)
	inCoder("zoe has what the manifest sets", func(u coderd.User) bool {
		return u.Name == "Zoe" && slices.Equal(u.Roles, []string{"auditor", "template-admin"})
	})
	if _, err := client.Login(t.Context(), "zoe@example.com", password); err != nil {
		t.Errorf("logging in with the password of the Secret: %v", err)
	}
	if got := field(get(t, user...), "status", "organizations"); got != "[map[name:coder roles:[organization-auditor]]]" {
		t.Errorf("status.organizations is %s", got)
	}
	if out := kubectl(t, "get", "coderusers,coderuserrecords.internal.coder.com", "-n", sampleNamespace, "-o", "yaml"); strings.Contains(out, password) {
		t.Error("an object or a record has the password")
	}

	// Somebody changes the user in Coder: a role, which the manifest owns, and that the user
	// is suspended, which it does not.
	zoe, err := client.UserByName(t.Context(), "zoe")
	if err != nil {
		t.Fatal(err)
	}
	if err := client.SetSuspended(t.Context(), zoe, true); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := client.SetRoles(t.Context(), "zoe", []string{"user-admin"}); err != nil {
		t.Fatal(err)
	}
	inCoder("the roles are corrected, and nothing else", func(u coderd.User) bool {
		return slices.Equal(u.Roles, []string{"auditor", "template-admin"}) && u.IsSuspended()
	})
	waitCondition(t, "Ready", "True", "Suspended", user...)
	t.Logf("corrected and shown after %s", time.Since(began).Round(time.Second))

	// An export applied to a Coder that has no such user, and exported again.
	export := func(name string) string {
		folder := filepath.Join(t.TempDir(), name)
		if _, stderr, code := coderK8s(t, "export", "--users", "-n", sampleNamespace, "-o", folder); code != 0 {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		text, err := os.ReadFile(filepath.Join(folder, "users", "zoe.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	before := export("before")
	if strings.Contains(before, password) {
		t.Error("the export has the password")
	}
	if err := client.DeleteUser(t.Context(), zoe); err != nil {
		t.Fatal(err)
	}
	polltest.Eventually(t, "the object of a user who was deleted in Coder is gone", func() error {
		if out, err := tryKubectl(t, append([]string{"get"}, user...)...); err == nil {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	apply(t, before)
	waitCondition(t, "Ready", "True", "Suspended", user...)
	if after := export("after"); after != before {
		t.Errorf("the second export is\n%s\nthe first was\n%s", after, before)
	}

	// Deleting the object suspends the user, and with the other policy deletes the user.
	kubectl(t, "-n", sampleNamespace, "patch", "coderuser", "zoe", "--type=merge", "-p", `{"spec":{"suspended":false}}`)
	inCoder("zoe is not suspended", func(u coderd.User) bool { return !u.IsSuspended() })
	kubectl(t, append([]string{"delete"}, user...)...)
	inCoder("zoe is suspended", coderd.User.IsSuspended)
	waitCondition(t, "Ready", "True", "Suspended", user...)
	kubectl(t, "-n", sampleNamespace, "patch", "coderuser", "zoe", "--type=merge", "-p", `{"spec":{"reclaimPolicy":"Delete"}}`)
	kubectl(t, append([]string{"delete"}, user...)...)
	if u, err := client.UserByName(t.Context(), "zoe"); !coderd.IsNotFound(err) {
		t.Errorf("the user is in Coder: %+v, %v", u, err)
	}
}
