package connections_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// cluster is an in-memory Kubernetes API that counts the reads of Secrets.
type cluster struct {
	client.Client
	clock       *clocktesting.FakePassiveClock
	secretReads int
	secretError error
	listError   error
	clients     int
	refused     []types.NamespacedName
	unreachable []types.NamespacedName
}

// knownKinds are the kinds that the cluster supports.
var knownKinds = kubetest.KindsOf(corev1.AddToScheme, coderv1alpha1.AddToScheme)

func newCluster(t *testing.T, objects ...client.Object) *cluster {
	t.Helper()
	c := &cluster{clock: clocktesting.NewFakePassiveClock(time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC))}
	c.Client = knownKinds.Cluster(t).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			if _, ok := object.(*corev1.Secret); ok {
				c.secretReads++
				if c.secretError != nil {
					return c.secretError
				}
			}
			return inner.Get(ctx, key, object, opts...)
		},
		List: func(ctx context.Context, inner client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if c.listError != nil {
				return c.listError
			}
			return inner.List(ctx, list, opts...)
		},
	}).Build()
	return c
}

func (c *cluster) pass(d time.Duration) { c.clock.SetTime(c.clock.Now().Add(d)) }

func (c *cluster) provider() *connections.Dynamic {
	return connections.NewDynamic(c, c, connections.Options{Clock: c.clock, NewClient: func(cfg coderd.Config) (*coderd.Client, error) {
		c.clients++
		return coderd.New(cfg)
	}, OnUnauthorized: func(controlPlane types.NamespacedName) { c.refused = append(c.refused, controlPlane) },
		OnUnreachable: func(controlPlane types.NamespacedName) { c.unreachable = append(c.unreachable, controlPlane) }})
}

// controlPlane returns a control plane that can be called.
func controlPlane(namespace, name, url string, changes ...func(*coderv1alpha1.CoderControlPlane)) *coderv1alpha1.CoderControlPlane {
	prefix := ""
	cp := &coderv1alpha1.CoderControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name)},
		Status: coderv1alpha1.CoderControlPlaneStatus{
			URL:                    url,
			OperatorAccessReady:    true,
			OperatorTokenSecretRef: &coderv1alpha1.TokenSecretReference{Name: name + "-operator-token", Key: "token"},
			ObjectNamePrefix:       &prefix,
		},
	}
	for _, change := range changes {
		change(cp)
	}
	return cp
}

func tokenSecret(namespace, controlPlane, token string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: controlPlane + "-operator-token"},
		Data:       map[string][]byte{"token": []byte(token)},
	}
}

func TestEligibility(t *testing.T) {
	type change = func(*coderv1alpha1.CoderControlPlane)
	for _, test := range []struct {
		name        string
		change      change
		secret      *corev1.Secret
		connected   bool
		unavailable string
		secretReads int
	}{
		{"ready", func(*coderv1alpha1.CoderControlPlane) {}, tokenSecret("team", "prod", "t"), true, "", 1},
		{"white space around the token", func(*coderv1alpha1.CoderControlPlane) {}, tokenSecret("team", "prod", " t\n"), true, "", 1},
		{"no key named", func(cp *coderv1alpha1.CoderControlPlane) { cp.Status.OperatorTokenSecretRef.Key = "" }, tokenSecret("team", "prod", "t"), true, "", 1},

		{"access disabled", func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.OperatorAccess.Disabled = true }, tokenSecret("team", "prod", "t"), false, "", 0},
		{"being deleted", func(cp *coderv1alpha1.CoderControlPlane) {
			now := metav1.Now()
			cp.DeletionTimestamp, cp.Finalizers = &now, []string{"test/hold"}
		}, tokenSecret("team", "prod", "t"), false, "", 0},
		{"a dot in its name", func(cp *coderv1alpha1.CoderControlPlane) { cp.Name = "prod.eu" }, nil, false, "", 0},
		{"disabled and not ready", func(cp *coderv1alpha1.CoderControlPlane) {
			cp.Spec.OperatorAccess.Disabled, cp.Status.URL = true, ""
		}, nil, false, "", 0},

		{"no access yet", func(cp *coderv1alpha1.CoderControlPlane) { cp.Status.OperatorAccessReady = false }, nil, false, "team/prod: the operator has no access to it yet", 0},
		{"no token yet", func(cp *coderv1alpha1.CoderControlPlane) { cp.Status.OperatorTokenSecretRef = nil }, nil, false, "team/prod: the operator has no token for it yet", 0},
		{"no address yet", func(cp *coderv1alpha1.CoderControlPlane) { cp.Status.URL = "" }, nil, false, "team/prod: it has no URL yet", 0},
		{"no prefix yet", func(cp *coderv1alpha1.CoderControlPlane) { cp.Status.ObjectNamePrefix = nil }, nil, false, "team/prod: its status.objectNamePrefix is not set yet", 0},
		{"Secret missing", func(*coderv1alpha1.CoderControlPlane) {}, nil, false, `team/prod: Secret "prod-operator-token" with its token does not exist`, 1},
		{"Secret without token", func(*coderv1alpha1.CoderControlPlane) {}, tokenSecret("team", "prod", " "), false, `team/prod: Secret "prod-operator-token" has no token under the key "token"`, 1},
		{"bad address", func(cp *coderv1alpha1.CoderControlPlane) { cp.Status.URL = "coder" }, tokenSecret("team", "prod", "t"), false, `team/prod: using the URL of Coder: "coder" must begin with http:// or https://`, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			objects := []client.Object{controlPlane("team", "prod", "http://coder.team", test.change)}
			if test.secret != nil {
				objects = append(objects, test.secret)
			}
			c := newCluster(t, objects...)
			got, err := c.provider().ForNamespace(t.Context(), "team")
			if connected := len(got) == 1; connected != test.connected {
				t.Errorf("%d connections", len(got))
			}
			expectUnavailable(t, err, test.unavailable)
			if c.secretReads != test.secretReads {
				t.Errorf("%d reads of Secrets, want %d", c.secretReads, test.secretReads)
			}
		})
	}
}

func expectUnavailable(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Error(err)
		}
		return
	}
	var unavailable *connections.UnavailableError
	if !errors.As(err, &unavailable) {
		t.Fatalf("got %v, want unavailable", err)
	}
	if diff := cmp.Diff([]string{want}, unavailable.ControlPlanes); diff != "" || unavailable.RetryAfter <= 0 {
		t.Errorf("unavailable (-want +got), retry after %s:\n%s", unavailable.RetryAfter, diff)
	}
}

func TestNamespaceWithoutControlPlaneIsEmpty(t *testing.T) {
	c := newCluster(t, controlPlane("team", "prod", ""))
	got, err := c.provider().ForNamespace(t.Context(), "other")
	if got != nil || err != nil {
		t.Errorf("got %v, %v; want nothing", got, err)
	}
	c.listError = errors.New("the cache is not there")
	if _, err := c.provider().ForNamespace(t.Context(), "other"); !errors.Is(err, c.listError) {
		t.Errorf("%v; an unread list is not an empty one", err)
	}
}

// TestOtherNamespacesHoldNothing: the cache of an operator that watches only some namespaces
// returns an error for the others. If the provider returned that error, it would block the deletion
// of those namespaces.
func TestOtherNamespacesHoldNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.listError = errors.New("unable to list: other because of unknown namespace for the cache")
	provider := connections.NewDynamic(c, c, connections.Options{Namespaces: []string{"watched"}})
	if found, err := provider.ForNamespace(t.Context(), "other"); err != nil || len(found) != 0 {
		t.Errorf("another namespace has %v, error %v", found, err)
	}
	if serves, err := provider.Serves(t.Context(), "other"); err != nil || serves {
		t.Errorf("another namespace is served: %t, error %v", serves, err)
	}
	if _, err := provider.Serves(t.Context(), "watched"); err == nil {
		t.Error("of a namespace that is watched the cache is not asked")
	}
}

func TestControlPlanesOfANamespace(t *testing.T) {
	second := func(cp *coderv1alpha1.CoderControlPlane) {
		prefix := cp.Name + "."
		cp.Status.ObjectNamePrefix = &prefix
	}
	c := newCluster(t,
		controlPlane("team", "zeta", "http://zeta"), tokenSecret("team", "zeta", "z"),
		controlPlane("team", "beta", "http://beta", second), tokenSecret("team", "beta", "b"),
		controlPlane("team", "late", ""),
		controlPlane("ateam", "prod", "http://prod"), tokenSecret("ateam", "prod", "p"),
	)
	names := func(got []connections.Connection) string {
		var out []string
		for _, connection := range got {
			out = append(out, connection.ControlPlane.String()+" "+connection.NamePrefix+" "+connection.Client.URL())
		}
		return strings.Join(out, ", ")
	}
	got, err := c.provider().ForNamespace(t.Context(), "team")
	expectUnavailable(t, err, "team/late: it has no URL yet")
	if want := "team/beta beta. http://beta, team/zeta  http://zeta"; names(got) != want {
		t.Errorf("got %q, want %q", names(got), want)
	}
}

func TestAClientIsKeptWhileNothingChanges(t *testing.T) {
	cp := controlPlane("team", "prod", "http://coder.team")
	secret := tokenSecret("team", "prod", "one")
	c := newCluster(t, cp, secret)
	provider := c.provider()
	one := func() *coderd.Client {
		t.Helper()
		got, err := provider.ForNamespace(t.Context(), "team")
		if err != nil || len(got) != 1 {
			t.Fatalf("%d connections, %v", len(got), err)
		}
		return got[0].Client
	}
	first := one()
	if _, err := provider.Members(t.Context()); err != nil || one() != first || c.clients != 1 || c.secretReads != 1 {
		t.Errorf("%d clients and %d reads for one token, %v", c.clients, c.secretReads, err)
	}

	secret.Data["other"] = []byte("of no interest")
	update(t, c, secret)
	c.pass(connections.TokenMaxAge)
	if one() != first || c.secretReads != 2 {
		t.Errorf("another client for the same token, or %d reads of the Secret", c.secretReads)
	}
	secret.Data["token"] = []byte("two")
	update(t, c, secret)
	cp.Labels = map[string]string{"changed": "yes"}
	update(t, c, cp)
	second := one()
	if second == first || one() != second {
		t.Error("a new token needs one new client")
	}
	cp.Status.URL = "http://elsewhere"
	update(t, c, cp)
	if third := one(); third == second || third.URL() != "http://elsewhere" {
		t.Error("a new address needs a new client")
	}
	if c.clients != 3 {
		t.Errorf("%d clients, want 3", c.clients)
	}
}

func update(t *testing.T, c *cluster, object client.Object) {
	t.Helper()
	if err := c.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// A Coder whose database is unavailable keeps its pods ready, so only its clients notice the
// failure.
func TestACoderThatDoesNotWorkIsTold(t *testing.T) {
	server := coderdtest.New(t)
	c := newCluster(t, controlPlane("team", "prod", server.URL), tokenSecret("team", "prod", server.AddUser("operator", "owner")))
	provider := c.provider()
	got, err := provider.ForNamespace(t.Context(), "team")
	if err != nil || len(got) != 1 {
		t.Fatalf("%d connections, %v", len(got), err)
	}
	remove := server.Fail(coderdtest.Fault{Status: 500})
	if _, err := got[0].Client.Me(t.Context()); !coderd.IsUnreachable(err) {
		t.Fatalf("%v, want unreachable", err)
	}
	remove()
	if want := []types.NamespacedName{{Namespace: "team", Name: "prod"}}; !cmp.Equal(want, c.unreachable) || len(c.refused) != 0 {
		t.Errorf("told of %v and refusals of %v, want %v and none", c.unreachable, c.refused, want)
	}
	if again, err := provider.ForNamespace(t.Context(), "team"); err != nil || len(again) != 1 {
		t.Errorf("the connection is dropped: %d, %v", len(again), err)
	}
}

func TestARefusedTokenIsNotUsedAgain(t *testing.T) {
	server := coderdtest.New(t)
	token := server.AddUser("operator", "owner")
	secret := tokenSecret("team", "prod", token)
	c := newCluster(t, controlPlane("team", "prod", server.URL), secret)
	provider := c.provider()
	got, err := provider.ForNamespace(t.Context(), "team")
	if err != nil || len(got) != 1 {
		t.Fatalf("%d connections, %v", len(got), err)
	}
	if _, err := got[0].Client.Me(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.RevokeToken(token)
	if _, err := got[0].Client.Me(t.Context()); !coderd.IsUnauthorized(err) {
		t.Fatalf("%v, want unauthorized", err)
	}
	if _, err := got[0].Client.Me(t.Context()); !coderd.IsUnauthorized(err) {
		t.Fatalf("%v, want unauthorized", err)
	}
	if want := []types.NamespacedName{{Namespace: "team", Name: "prod"}}; !cmp.Equal(want, c.refused) {
		t.Errorf("told of refusals of %v, want once of %v", c.refused, want)
	}
	server.ResetRequests()
	again, err := provider.ForNamespace(t.Context(), "team")
	expectUnavailable(t, err, "team/prod: Coder does not accept the operator's token")
	if len(again) != 0 || len(server.Requests()) != 0 {
		t.Errorf("%d connections and requests %v with a refused token", len(again), server.Requests())
	}

	c.pass(connections.RefusedFor)
	retried, err := provider.ForNamespace(t.Context(), "team")
	if err != nil || len(retried) != 1 || retried[0].Client == got[0].Client {
		t.Fatalf("%d connections after a while, %v; want one more attempt", len(retried), err)
	}
	if _, err := retried[0].Client.Me(t.Context()); !coderd.IsUnauthorized(err) {
		t.Fatalf("%v, want unauthorized", err)
	}

	secret.Data["token"] = []byte(server.AddUser("other", "owner"))
	update(t, c, secret)
	again, err = provider.ForNamespace(t.Context(), "team")
	if err != nil || len(again) != 1 {
		t.Fatalf("%d connections with the new token, %v", len(again), err)
	}
	if _, err := again[0].Client.Me(t.Context()); err != nil {
		t.Error(err)
	}
	// The old client still reports the refusal, although it was replaced long ago.
	_, _ = got[0].Client.Me(t.Context())
	if _, err := provider.ForNamespace(t.Context(), "team"); err != nil {
		t.Errorf("the old token took the new one with it: %v", err)
	}
}

func TestASecretThatCannotBeReadIsUnavailable(t *testing.T) {
	c := newCluster(t, controlPlane("team", "prod", "http://coder.team"), tokenSecret("team", "prod", "t"))
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "prod-operator-token", errors.New("no"))
	provider := c.provider()
	ask := func(failure error) ([]connections.Connection, error) {
		c.pass(connections.TokenMaxAge)
		c.secretError = failure
		return provider.ForNamespace(t.Context(), "team")
	}
	_, err := ask(errors.New("connection refused"))
	expectUnavailable(t, err, `team/prod: Secret "prod-operator-token" with its token cannot be read now: connection refused`)
	if got, err := ask(nil); len(got) != 1 || err != nil {
		t.Errorf("%d connections, %v", len(got), err)
	}
	if got, err := ask(errors.New("connection refused")); len(got) != 1 || err != nil {
		t.Errorf("a bad moment of the API server ends a good connection: %d, %v", len(got), err)
	}
	got, err := ask(forbidden)
	expectUnavailable(t, err, `team/prod: the operator has no permission to read Secret "prod-operator-token" with its token`)
	if len(got) != 0 {
		t.Errorf("%d connections", len(got))
	}
}

func TestAReplacedControlPlaneHasItsOwnClient(t *testing.T) {
	cp := controlPlane("team", "prod", "http://coder.team")
	c := newCluster(t, cp, tokenSecret("team", "prod", "t"))
	provider := c.provider()
	first, err := provider.ForNamespace(t.Context(), "team")
	if err != nil || len(first) != 1 {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), cp); err != nil {
		t.Fatal(err)
	}
	replaced := controlPlane("team", "prod", "http://coder.team", func(cp *coderv1alpha1.CoderControlPlane) { cp.UID = "another" })
	if err := c.Create(t.Context(), replaced); err != nil {
		t.Fatal(err)
	}
	second, err := provider.ForNamespace(t.Context(), "team")
	if err != nil || len(second) != 1 || second[0].Client == first[0].Client {
		t.Errorf("the client of the old control plane, %v", err)
	}
}

func TestStatic(t *testing.T) {
	c, err := coderd.New(coderd.Config{URL: "http://coder"})
	if err != nil {
		t.Fatal(err)
	}
	var provider connections.Provider = connections.NewStatic("team", c)
	got, err := provider.ForNamespace(t.Context(), "team")
	if err != nil || len(got) != 1 || got[0].Client != c || got[0].ControlPlane.Namespace != "team" || got[0].NamePrefix != "" {
		t.Errorf("%+v, %v", got, err)
	}
	if other, err := provider.ForNamespace(t.Context(), "other"); other != nil || err != nil {
		t.Errorf("%+v, %v", other, err)
	}
}

func TestUnavailableSaysWhoAndWhen(t *testing.T) {
	err := &connections.UnavailableError{ControlPlanes: []string{"team/prod: late", "team/dev: later"}, RetryAfter: 5 * time.Second}
	const want = "control planes that cannot be reached yet: team/prod: late; team/dev: later; try again in 5s"
	if err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}
