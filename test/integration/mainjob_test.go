package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const operatorUser = "coder-k8s-operator"

// controlPlaneReady creates a control plane, waits until it is Ready, and returns its
// Coder.
func controlPlaneReady(t *testing.T, names *coders, ns, name string, opts ...coderdtest.Option) *coderdtest.Server {
	t.Helper()
	coder := coderdtest.New(t, opts...)
	names.add(t, ns, name, coder)
	if err := environment.client.Create(t.Context(), controlPlane(ns, name, withDatabase)); err != nil {
		t.Fatal(err)
	}
	makeAvailable(t, ns, name)
	waitCondition(t, ns, name, coderv1alpha1.ConditionReady, metav1.ConditionTrue, "")
	return coder
}

// coderServed starts the program for a new namespace, with a control plane "coder" that
// is Ready. Its Coder has template "hello".
func coderServed(t *testing.T, opts ...coderdtest.Option) (p *process, ns string, coder *coderdtest.Server, template uuid.UUID) {
	t.Helper()
	names, proxy := startCoders(t)
	ns = namespace(t)
	p = startProcess(t, proxy, "--leader-elect=false", "--watch-namespaces="+ns)
	p.ready(t)
	serve(t, p)
	coder = controlPlaneReady(t, names, ns, "coder", opts...)
	return p, ns, coder, coder.AddTemplate("coder", "hello", map[string]string{"main.tf": "# nothing\n"})
}

func withDatabase(cp *coderv1alpha1.CoderControlPlane) {
	cp.Spec.ExtraEnv = []corev1.EnvVar{{Name: "CODER_PG_CONNECTION_URL", Value: "postgres://db.invalid/coder"}}
}

// as returns a client that acts as a ServiceAccount.
func as(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: environment.scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func workspaceOf(ns, name, template string) *aggregationv1alpha1.CoderWorkspace {
	return &aggregationv1alpha1.CoderWorkspace{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec:       aggregationv1alpha1.CoderWorkspaceSpec{TemplateName: template},
	}
}

// TestMainJob runs the real program with its own permissions against a real
// kube-apiserver: from a control plane to a stopped workspace.
func TestMainJob(t *testing.T) {
	names, p := startOperator(t, "--app=all", "--leader-elect=false")
	serve(t, p)
	ns := namespace(t)
	coder := controlPlaneReady(t, names, ns, "coder")

	template := &aggregationv1alpha1.CoderTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "coder.hello"},
		Spec:       aggregationv1alpha1.CoderTemplateSpec{DisplayName: "Hello", Files: map[string]string{"main.tf": "# nothing\n"}},
	}
	// The aggregated API may see the control plane later than the test.
	polltest.Eventually(t, "a template is made", func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(environment.client.Create(ctx, template.DeepCopy()))
	})
	key := client.ObjectKey{Namespace: ns, Name: "coder.hello"}
	polltest.Eventually(t, "the template is Ready", func(ctx context.Context) error {
		if err := environment.client.Get(ctx, key, template); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(template.Status.Conditions, aggregationv1alpha1.ConditionReady) {
			return fmt.Errorf("its conditions are %+v", template.Status.Conditions)
		}
		return nil
	})
	if template.Spec.Files["main.tf"] != "# nothing\n" {
		t.Errorf("spec.files is %v", template.Spec.Files)
	}

	dry := workspaceOf(ns, "coder.admin.dry", "hello")
	if err := environment.client.Create(t.Context(), dry, client.DryRunAll); err != nil {
		t.Fatalf("a dry run of a workspace: %v", err)
	}
	ws := workspaceOf(ns, "coder.admin.one", "hello")
	if err := environment.client.Create(t.Context(), ws); err != nil {
		t.Fatalf("making a workspace: %v", err)
	}
	list := &aggregationv1alpha1.CoderWorkspaceList{}
	if err := environment.client.List(t.Context(), list, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].Name != "coder.admin.one" {
		t.Fatalf("the list has %d workspaces, the dry run's among them: %+v", len(list.Items), list.Items)
	}
	if got := list.Items[0].Labels[aggregationv1alpha1.LabelControlPlaneName]; got != "coder" {
		t.Errorf("the label of the control plane is %q", got)
	}

	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"running":false}}`))
	if err := environment.client.Patch(t.Context(), ws, patch); err != nil {
		t.Fatalf("stopping the workspace: %v", err)
	}
	polltest.Eventually(t, "the workspace is stopped", func(ctx context.Context) error {
		if err := environment.client.Get(ctx, client.ObjectKeyFromObject(ws), ws); err != nil {
			return err
		}
		if ws.Status.Phase != "Stopped" {
			return fmt.Errorf("its phase is %q", ws.Status.Phase)
		}
		return nil
	})
	stale := ws.DeepCopy()
	stale.ResourceVersion = list.Items[0].ResourceVersion
	stale.Spec.Running = ptr.To(true)
	if err := environment.client.Update(t.Context(), stale); !apierrors.IsConflict(err) {
		t.Errorf("an update of an old version is answered with %v, not with a conflict", err)
	}
	if err := environment.client.Delete(t.Context(), ws); err != nil {
		t.Fatalf("deleting the workspace: %v", err)
	}
	polltest.Eventually(t, "the workspace is gone", func(ctx context.Context) error {
		err := environment.client.Get(ctx, client.ObjectKeyFromObject(ws), ws)
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading it gives %w", err)
		}
		return nil
	})
	if !coder.HasRole(operatorUser, "owner") {
		t.Error("the operator's account has not the role owner")
	}
}

// TestRights checks that RBAC applies to callers through kube-apiserver and to callers
// that connect to the program directly.
func TestRights(t *testing.T) {
	names, proxy := startCoders(t)
	p := startProcess(t, proxy, "--leader-elect=false")
	p.ready(t)
	serve(t, p)
	ns := namespace(t)
	controlPlaneReady(t, names, ns, "coder")
	if err := environment.client.Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "looks"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"aggregation.coder.com"}, Resources: []string{"coderworkspaces"}, Verbs: []string{"get", "list", "watch"},
		}},
	}); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	viewer := serviceAccountConfig(t, ns, "viewer")
	nobody := serviceAccountConfig(t, ns, "nobody")
	grant(t, ns, "looks", "viewer")

	direct := rest.CopyConfig(viewer)
	direct.Host = "https://127.0.0.1:" + p.apiPort
	direct.TLSClientConfig = rest.TLSClientConfig{Insecure: true}
	anonymous := rest.CopyConfig(direct)
	anonymous.BearerToken = ""
	forged := rest.CopyConfig(anonymous)
	forged.Wrap(setHeaders(map[string]string{"X-Remote-User": "system:admin", "X-Remote-Group": "system:masters"}))
	// A client certificate that kube-apiserver accepts is not a front proxy
	// certificate.
	user, err := environment.server.AddUser(envtest.User{Name: "mallory"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	certified := rest.CopyConfig(user.Config())
	certified.Host, certified.CAData, certified.Insecure = direct.Host, nil, true
	certified.Wrap(setHeaders(map[string]string{"X-Remote-User": "system:admin", "X-Remote-Group": "system:masters"}))
	for name, test := range map[string]struct {
		config  *rest.Config
		allowed bool
	}{
		"through kube-apiserver, with the right":             {viewer, true},
		"through kube-apiserver, without the right":          {nobody, false},
		"directly, with the right":                           {direct, true},
		"directly, anonymous":                                {anonymous, false},
		"directly, with a forged identity":                   {forged, false},
		"directly, with a certificate and a forged identity": {certified, false},
	} {
		t.Run(name, func(t *testing.T) {
			for what, ask := range map[string]func(ctx context.Context, config *rest.Config, ns string) error{"list": restList, "watch": restWatch} {
				polltest.Eventually(t, "the "+what+" is answered as it should be", func(ctx context.Context) error {
					return asExpected(ask(ctx, test.config, ns), test.allowed)
				})
				// No user here has permissions in all namespaces.
				polltest.Eventually(t, "the "+what+" of all namespaces is refused", func(ctx context.Context) error {
					return asExpected(ask(ctx, test.config, ""), false)
				})
			}
		})
	}
	// A new client runs discovery first, and kube-apiserver may still have cached that
	// the previous program is unavailable.
	polltest.Eventually(t, "a viewer may not make a workspace", func(ctx context.Context) error {
		err := as(t, viewer).Create(ctx, workspaceOf(ns, "coder.admin.x", "hello"))
		if err == nil {
			t.Fatal("a viewer makes a workspace")
		}
		if !apierrors.IsForbidden(err) {
			return err
		}
		return nil
	})
}

// asExpected returns an error unless a result is as expected for a caller.
func asExpected(err error, allowed bool) error {
	switch {
	case allowed && err != nil:
		return err
	case !allowed && !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err):
		return fmt.Errorf("the answer is %w, not a refusal", err)
	}
	return nil
}

// TestNamespaceWithoutControlPlaneIsEmpty checks that lists are empty there: anything
// else would block the deletion of every namespace of a cluster.
func TestNamespaceWithoutControlPlaneIsEmpty(t *testing.T) {
	_, p := startOperator(t, "--leader-elect=false")
	serve(t, p)
	list := &aggregationv1alpha1.CoderTemplateList{}
	if err := environment.client.List(t.Context(), list, client.InNamespace(namespace(t))); err != nil || len(list.Items) != 0 {
		t.Errorf("the list has %d items, error %v", len(list.Items), err)
	}
}

// TestUnreachableCoderIsNoEmptyList checks that lists are not empty while Coder is
// unavailable, because clients delete dependents of missing objects. Replicas serve the
// last known objects, including a replica that starts during the outage.
func TestUnreachableCoderIsNoEmptyList(t *testing.T) {
	names, proxy := startCoders(t)
	ns := namespace(t)
	args := []string{"--leader-elect=false", "--watch-namespaces=" + ns}
	p := startProcess(t, proxy, args...)
	p.ready(t)
	coder := controlPlaneReady(t, names, ns, "coder")
	template := coder.AddTemplate("coder", "hello", map[string]string{"main.tf": "# nothing\n"})
	coder.AddWorkspace("admin", template, "one")
	p.kill()
	p.start(t)
	p.ready(t)
	serve(t, p)
	list := &aggregationv1alpha1.CoderWorkspaceList{}
	shows := func(ctx context.Context) error {
		err := environment.client.List(ctx, list, client.InNamespace(ns))
		if err == nil && len(list.Items) != 1 {
			err = fmt.Errorf("there are %d workspaces", len(list.Items))
		}
		return err
	}
	polltest.Eventually(t, "the workspace is shown", shows)
	defer coder.Fail(coderdtest.Fault{DropConnection: true})()
	asked := len(coder.Requests())
	polltest.Eventually(t, "Coder is asked in vain", func(ctx context.Context) error {
		if err := shows(ctx); err != nil {
			t.Errorf("a replica that knew the workspaces says %v", err)
		}
		if !strings.Contains(p.logs.String(), "EOF") && len(coder.Requests()) == asked {
			return fmt.Errorf("nobody has asked it")
		}
		return nil
	})
	p.kill()
	p.start(t)
	p.ready(t)
	polltest.Eventually(t, "what was known is shown", func(ctx context.Context) error {
		err := shows(ctx)
		switch {
		case err == nil, apierrors.IsServiceUnavailable(err):
			return err
		case len(list.Items) == 0:
			t.Fatalf("after a restart without Coder: %v", err)
		}
		return err
	})
	if err := httpOK(t.Context(), "http://127.0.0.1:"+p.port+"/readyz"); err != nil {
		t.Errorf("readiness depends on Coder: %v", err)
	}
}

// TestForeignServiceIsNotTouched checks that an object of someone else is reported and
// not changed, and that no password is sent to it.
func TestForeignServiceIsNotTouched(t *testing.T) {
	names, _ := startOperator(t, "--app=controller", "--leader-elect=false")
	ns := namespace(t)
	coder := coderdtest.New(t)
	names.add(t, ns, "coder", coder)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "coder"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1234}}},
	}
	if err := environment.client.Create(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	if err := environment.client.Create(t.Context(), controlPlane(ns, "coder", withDatabase)); err != nil {
		t.Fatal(err)
	}
	makeAvailable(t, ns, "coder")
	cp := waitCondition(t, ns, "coder", coderv1alpha1.ConditionResourcesApplied, metav1.ConditionFalse, coderv1alpha1.ReasonNotOwned)
	if c := meta.FindStatusCondition(cp.Status.Conditions, coderv1alpha1.ConditionResourcesApplied); !strings.Contains(c.Message, "Service") {
		t.Errorf("the message does not name the Service: %s", c.Message)
	}
	after := &corev1.Service{}
	if err := environment.client.Get(t.Context(), client.ObjectKeyFromObject(service), after); err != nil {
		t.Fatal(err)
	}
	if after.ResourceVersion != service.ResourceVersion {
		t.Errorf("the Service was changed: %+v", after)
	}
	if coder.HasRole(operatorUser, "owner") {
		t.Error("the operator made its account behind a Service that is not its own")
	}
}

// TestRestIsRest checks that a control plane in its desired state causes no write,
// however often it is reconciled.
func TestRestIsRest(t *testing.T) {
	names, _ := startOperator(t, "--app=controller", "--leader-elect=false")
	ns := namespace(t)
	controlPlaneReady(t, names, ns, "coder")
	before := versions(t, ns)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "coder"}}
	for i := range 5 {
		// An annotation of someone else triggers a reconcile, and is kept.
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/touched":"%d"}}}`, i)
		if err := environment.client.Patch(t.Context(), service, client.RawPatch("application/merge-patch+json", patch)); err != nil {
			t.Fatal(err)
		}
	}
	before["Service/coder"] = service.ResourceVersion
	// The queue is fair, so when a second control plane, which is created after these
	// changes, is Ready, the events of the first one have been handled.
	controlPlaneReady(t, names, namespace(t), "coder")
	after := versions(t, ns)
	for name, version := range before {
		if after[name] != version {
			t.Errorf("%s was written at rest", name)
		}
	}
	deployment := &appsv1.Deployment{}
	if err := environment.client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "coder"}, deployment); err != nil {
		t.Fatal(err)
	}
	if err := environment.client.Get(t.Context(), client.ObjectKeyFromObject(service), service); err != nil {
		t.Fatal(err)
	}
	if service.Annotations["example.com/touched"] != "4" {
		t.Errorf("somebody else's annotation was removed: %v", service.Annotations)
	}
	if deployment.Generation != 1 {
		t.Errorf("the Deployment's spec was written %d times, not once", deployment.Generation)
	}
}

// versions returns the resource versions of a control plane's objects.
func versions(t *testing.T, ns string) map[string]string {
	t.Helper()
	found, err := objects(t.Context(), ns)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 8 {
		t.Fatalf("only these objects were found: %v", found)
	}
	return found
}

// objects returns the resource versions of all objects of a namespace that a
// control plane may consist of.
func objects(ctx context.Context, ns string) (map[string]string, error) {
	found := map[string]string{}
	err := eachObject(ctx, ns, func(name string, object client.Object) {
		found[name] = object.GetResourceVersion()
	})
	return found, err
}

// contents returns the same objects as JSON, without what kube-apiserver changes
// when an apply changes nothing: entries about managers of fields that were written
// in the same second change places.
func contents(t *testing.T, ns string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := eachObject(t.Context(), ns, func(name string, object client.Object) {
		object.SetResourceVersion("")
		object.SetManagedFields(nil)
		content, err := json.MarshalIndent(object, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		found[name] = string(content)
	})
	if err != nil || len(found) < 8 {
		t.Fatalf("only %d objects were found: %v", len(found), err)
	}
	return found
}

func eachObject(ctx context.Context, ns string, do func(name string, object client.Object)) error {
	for _, list := range []client.ObjectList{
		&coderv1alpha1.CoderControlPlaneList{}, &coderv1alpha1.CoderProvisionerList{}, &coderv1alpha1.CoderWorkspaceProxyList{},
		&appsv1.DeploymentList{}, &corev1.ServiceList{}, &corev1.ServiceAccountList{}, &corev1.SecretList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
	} {
		if err := environment.client.List(ctx, list, client.InNamespace(ns)); err != nil {
			return err
		}
		kind := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", list), "*"), "List")
		kind = kind[strings.LastIndex(kind, ".")+1:]
		if err := meta.EachListItem(list, func(item runtime.Object) error {
			object := item.(client.Object)
			do(kind+"/"+object.GetName(), object)
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// TestKilledAtWork kills the program with SIGKILL repeatedly while it creates a control
// plane. The control plane must become Ready, with one token and one of each object.
func TestKilledAtWork(t *testing.T) {
	names, proxy := startCoders(t)
	ns := namespace(t)
	coder := coderdtest.New(t)
	names.add(t, ns, "coder", coder)
	if err := environment.client.Create(t.Context(), controlPlane(ns, "coder", withDatabase)); err != nil {
		t.Fatal(err)
	}
	// Each life ends when the namespace has one object more than at the end of the
	// previous life, and the last ones end when the operator has started to call Coder.
	for count := 2; count <= 9; count++ {
		p := startProcess(t, proxy, "--app=controller", "--leader-elect=false")
		if count == 6 {
			makeAvailable(t, ns, "coder")
		}
		polltest.Eventually(t, fmt.Sprintf("the namespace holds %d objects", count), func(ctx context.Context) error {
			found, err := objects(ctx, ns)
			if err == nil && len(found) < count {
				err = fmt.Errorf("it holds %v", found)
			}
			return err
		})
		p.kill()
	}
	p := startProcess(t, proxy, "--app=controller", "--leader-elect=false")
	p.ready(t)
	makeAvailable(t, ns, "coder")
	waitCondition(t, ns, "coder", coderv1alpha1.ConditionReady, metav1.ConditionTrue, "")
	if tokens := coder.TokenNames(operatorUser); len(tokens) != 1 {
		t.Errorf("the operator has the tokens %v in Coder, not one", tokens)
	}
}
