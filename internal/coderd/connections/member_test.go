package connections_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// described formats a member as one line.
func described(m connections.Member) string {
	url := "none"
	if m.Connection != nil {
		url = m.Connection.Client.URL()
	}
	return fmt.Sprintf("%s %s prefix %q named %v deleting %v connection %s: %s",
		m.ControlPlane, m.UID, m.NamePrefix, m.Named, m.Deleting, url, m.Reason)
}

// TestMembers checks the reasons why a control plane has no connection.
func TestMembers(t *testing.T) {
	second := func(cp *coderv1alpha1.CoderControlPlane) {
		prefix := cp.Name + "."
		cp.Status.ObjectNamePrefix = &prefix
	}
	c := newCluster(t,
		controlPlane("team", "prod", "http://prod"), tokenSecret("team", "prod", "p"),
		controlPlane("team", "next", "http://next", second), tokenSecret("team", "next", "n"),
		controlPlane("team", "lost", "http://lost", second),
		controlPlane("team", "new", "", func(cp *coderv1alpha1.CoderControlPlane) { cp.Status.ObjectNamePrefix = nil }),
		controlPlane("team", "going", "http://going", second, func(cp *coderv1alpha1.CoderControlPlane) {
			now := metav1.Now()
			cp.DeletionTimestamp, cp.Finalizers = &now, []string{"test/hold"}
		}),
		controlPlane("team", "off", "http://off", func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.OperatorAccess.Disabled = true }),
		controlPlane("team", "a.dot", "http://dot"),
		controlPlane("ateam", "prod", "http://first"), tokenSecret("ateam", "prod", "f"),
	)
	provider := c.provider()
	got, err := provider.Members(t.Context())
	var lines []string
	for _, m := range got {
		lines = append(lines, described(m))
	}
	want := []string{
		`ateam/prod ateam/prod prefix "" named true deleting false connection http://first: `,
		`team/going team/going prefix "going." named true deleting true connection none: it is being deleted`,
		`team/lost team/lost prefix "lost." named true deleting false connection none: Secret "lost-operator-token" with its token does not exist`,
		`team/new team/new prefix "" named false deleting false connection none: it has no URL yet`,
		`team/next team/next prefix "next." named true deleting false connection http://next: `,
		`team/prod team/prod prefix "" named true deleting false connection http://prod: `,
	}
	if diff := cmp.Diff(want, lines); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	again, err := provider.Members(t.Context())
	if err != nil || again[0].Connection.Client != got[0].Connection.Client {
		t.Errorf("another client although nothing changed, %v", err)
	}
	c.listError = errors.New("the cache is not there")
	if got, err := provider.Members(t.Context()); !errors.Is(err, c.listError) || got != nil {
		t.Errorf("%v, %v; an unread list is not an empty one", got, err)
	}
}

// TestPodNamespaces checks that pods are considered only in namespaces in which permissions are granted. A
// spec may name any namespace.
func TestPodNamespaces(t *testing.T) {
	c := newCluster(t, controlPlane("team", "prod", "", func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Spec.RBAC.WorkspaceNamespaces = []string{"victim", "granted", "unwatched"}
		cp.Status.WorkspaceNamespaces = []string{"team", "granted", "unwatched"}
	}), controlPlane("ateam", "prod", "", func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Spec.RBAC.WorkspaceNamespaces = []string{"victim"}
	}))
	provider := connections.NewDynamic(c, c, connections.Options{Namespaces: []string{"ateam", "team", "victim", "granted"}})
	got, err := provider.Members(t.Context())
	if err != nil || len(got) != 2 {
		t.Fatalf("%d members, %v", len(got), err)
	}
	for i, want := range [][]string{{"ateam"}, {"team", "granted"}} {
		if diff := cmp.Diff(want, got[i].PodNamespaces); diff != "" {
			t.Errorf("%s (-want +got):\n%s", got[i].ControlPlane, diff)
		}
	}
}

// TestNeverServed checks that an uncertain status counts as served before.
func TestNeverServed(t *testing.T) {
	yes, no, prefix := true, false, ""
	for name, c := range map[string]struct {
		status coderv1alpha1.CoderControlPlaneStatus
		want   bool
	}{
		"a new one":                           {coderv1alpha1.CoderControlPlaneStatus{}, true},
		"recorded, never":                     {coderv1alpha1.CoderControlPlaneStatus{EverServed: &no, ObjectNamePrefix: &prefix, Version: "v2"}, true},
		"recorded, once":                      {coderv1alpha1.CoderControlPlaneStatus{EverServed: &yes}, false},
		"access now":                          {coderv1alpha1.CoderControlPlaneStatus{OperatorAccessReady: true}, false},
		"a token":                             {coderv1alpha1.CoderControlPlaneStatus{OperatorTokenSecretRef: &coderv1alpha1.TokenSecretReference{Name: "t"}}, false},
		"by an older operator, answered once": {coderv1alpha1.CoderControlPlaneStatus{ObjectNamePrefix: &prefix, Version: "v2"}, false},
		"by an older operator, which got no reply": {coderv1alpha1.CoderControlPlaneStatus{ObjectNamePrefix: &prefix}, true},
	} {
		cluster := newCluster(t, controlPlane("team", "prod", "", func(cp *coderv1alpha1.CoderControlPlane) { cp.Status = c.status }))
		got, err := cluster.provider().Members(t.Context())
		if err != nil || len(got) != 1 || got[0].NeverServed != c.want {
			t.Errorf("%s: %+v, %v; want %t", name, got, err, c.want)
		}
	}
}

func TestStaticMember(t *testing.T) {
	client, err := coderd.New(coderd.Config{URL: "http://coder"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := connections.NewStatic("team", client).Members(t.Context())
	if err != nil || len(got) != 1 || got[0].Connection.Client != client || !got[0].Named || got[0].NeverServed || got[0].Deleting {
		t.Errorf("%+v, %v", got, err)
	}
}
