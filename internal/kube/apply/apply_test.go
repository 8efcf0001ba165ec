package apply

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

const fieldOwner = "test-operator"

// fixture is an Applier with a fake cluster that counts the applies.
type fixture struct {
	*Applier
	cluster client.Client
	applies atomic.Int32
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	f := &fixture{}
	cluster := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithReturnManagedFields().WithObjects(objects...).
		WithInterceptorFuncs(interceptor.Funcs{
			Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
				f.applies.Add(1)
				return kubetest.Apply(ctx, c, obj, opts...)
			},
		}).Build()
	f.cluster = cluster
	f.Applier = &Applier{Client: cluster, Live: cluster, FieldOwner: fieldOwner}
	return f
}

func (f *fixture) get(t *testing.T, obj client.Object) {
	t.Helper()
	if err := f.cluster.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		t.Fatalf("reading %T: %v", obj, err)
	}
}

func (f *fixture) mustApply(t *testing.T, claim Claim, obj client.Object) bool {
	t.Helper()
	changed, err := f.Apply(t.Context(), claim, obj)
	if err != nil {
		t.Fatalf("applying %T: %v", obj, err)
	}
	return changed
}

func owner() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner", Namespace: "ns", UID: "owner-uid"}}
}

func ownerClaim() Claim { return ControlledBy(owner(), clientgoscheme.Scheme) }

func deployment(image string) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "web", Image: image, Env: []corev1.EnvVar{{Name: "A", Value: "1"}},
				}}},
			},
		},
	}
}

func service() *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}},
	}
}

func TestApplyWritesOnceAndThenNothing(t *testing.T) {
	f := newFixture(t)
	if changed := f.mustApply(t, ownerClaim(), deployment("a:1")); !changed {
		t.Error("creating an object counts as no change")
	}
	got := deployment("a:1")
	if changed := f.mustApply(t, ownerClaim(), got); changed {
		t.Error("applying the same again counts as a change")
	}
	if n := f.applies.Load(); n != 1 {
		t.Errorf("%d applies, want 1", n)
	}
	if got.ResourceVersion == "" || !metav1.IsControlledBy(got, owner()) {
		t.Errorf("after a pass without a write the object is not the cluster's: %+v", got.ObjectMeta)
	}
}

func TestStatusChangesOfOthersCauseNoWrite(t *testing.T) {
	f := newFixture(t)
	f.mustApply(t, ownerClaim(), deployment("a:1"))
	live := deployment("")
	f.get(t, live)
	live.Status.ReadyReplicas = 1
	live.Annotations = map[string]string{"deployment.kubernetes.io/revision": "1"}
	if err := f.cluster.Update(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	f.mustApply(t, ownerClaim(), deployment("a:1"))
	if n := f.applies.Load(); n != 1 {
		t.Errorf("%d applies, want 1", n)
	}
}

func TestFieldsOfOthersSurviveAndOursAreRestored(t *testing.T) {
	f := newFixture(t)
	f.mustApply(t, ownerClaim(), deployment("a:1"))
	live := deployment("")
	f.get(t, live)
	live.Spec.Template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "today"}
	live.Spec.Template.Spec.Containers = append(live.Spec.Template.Spec.Containers, corev1.Container{Name: "sidecar", Image: "s:1"})
	live.Spec.Template.Spec.Containers[0].Image = "somebody:elses"
	if err := f.cluster.Update(t.Context(), live, client.FieldOwner("kubectl")); err != nil {
		t.Fatal(err)
	}

	if changed := f.mustApply(t, ownerClaim(), deployment("a:1")); !changed {
		t.Error("a field that somebody took was not taken back")
	}
	f.get(t, live)
	spec := live.Spec.Template
	if spec.Annotations["kubectl.kubernetes.io/restartedAt"] == "" || len(spec.Spec.Containers) != 2 {
		t.Errorf("what others added is gone: %+v", spec)
	}
	if spec.Spec.Containers[0].Image != "a:1" {
		t.Errorf("image is %q, want ours", spec.Spec.Containers[0].Image)
	}
}

func TestAFieldThatSomebodyRemovesComesBack(t *testing.T) {
	f := newFixture(t)
	f.mustApply(t, ownerClaim(), deployment("a:1"))
	live := deployment("")
	f.get(t, live)
	live.Spec.Template.Spec.Containers[0].Env = nil
	if err := f.cluster.Update(t.Context(), live, client.FieldOwner("kubectl")); err != nil {
		t.Fatal(err)
	}
	f.mustApply(t, ownerClaim(), deployment("a:1"))
	f.get(t, live)
	if len(live.Spec.Template.Spec.Containers[0].Env) != 1 {
		t.Error("the variable did not come back")
	}
}

// Another writer with the same field owner leaves the set of owned fields as it is.
func TestAValueOfAnotherWriterWithOurNameIsReplaced(t *testing.T) {
	f := newFixture(t)
	// From the second apply on, the fake cluster always returns the same set.
	f.mustApply(t, ownerClaim(), deployment("a:0"))
	f.mustApply(t, ownerClaim(), deployment("a:1"))
	other := &Applier{Client: f.cluster, Live: f.cluster, FieldOwner: fieldOwner}
	if _, err := other.Apply(t.Context(), ownerClaim(), deployment("b:1")); err != nil {
		t.Fatal(err)
	}
	live := deployment("")
	f.get(t, live)
	// The resolution of the time is a second.
	later := metav1.NewTime(live.ManagedFields[0].Time.Add(time.Second))
	live.ManagedFields[0].Time = &later
	if err := f.cluster.Update(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	f.mustApply(t, ownerClaim(), deployment("a:1"))
	f.get(t, live)
	if got := live.Spec.Template.Spec.Containers[0].Image; got != "a:1" {
		t.Errorf("the image is %q", got)
	}
}

func TestAFieldThatIsNoLongerMeantGoes(t *testing.T) {
	f := newFixture(t)
	f.mustApply(t, ownerClaim(), deployment("a:1"))
	without := deployment("a:1")
	without.Spec.Template.Spec.Containers[0].Env = nil
	f.mustApply(t, ownerClaim(), without)
	if env := without.Spec.Template.Spec.Containers[0].Env; len(env) != 0 {
		t.Errorf("the cluster still has %v", env)
	}
}

func TestNothingIsAdopted(t *testing.T) {
	controlled := service()
	controlled.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "Deployment", Name: "other", UID: "other-uid", Controller: ptr.To(true),
	}}
	foreignUID := service()
	foreignUID.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "an-earlier-owner", Controller: ptr.To(true),
	}}
	for name, existing := range map[string]*corev1.Service{
		"an object without an owner": service(), "an object of someone else": controlled,
		"an object of an owner of the same name that is gone": foreignUID,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, existing)
			before := service()
			f.get(t, before)

			_, err := f.Apply(t.Context(), ownerClaim(), service())

			var refused *NotOwnedError
			if !errors.As(err, &refused) || refused.Kind != "Service" || refused.Name != "web" {
				t.Fatalf("error %v, want a NotOwnedError about the Service", err)
			}
			after := service()
			f.get(t, after)
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("the object was touched:\n%s", diff)
			}
		})
	}
}

// A stale cache does not contain the object of another owner yet.
func TestAbsenceInACacheIsNotBelieved(t *testing.T) {
	f := newFixture(t, service())
	f.Client = uncached(f)
	_, err := f.Apply(t.Context(), ownerClaim(), service())
	var refused *NotOwnedError
	if !errors.As(err, &refused) {
		t.Fatalf("error %v, want a NotOwnedError", err)
	}
	after := service()
	f.get(t, after)
	if len(after.OwnerReferences) > 0 || len(after.ManagedFields) > 0 {
		t.Errorf("the object was touched: %+v", after.ObjectMeta)
	}
}

// uncached is a cache that never contains anything.
func uncached(f *fixture) client.Client {
	return interceptor.NewClient(f.cluster.(client.WithWatch), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "services"}, "web")
		},
	})
}

// counted replaces the uncached reader of a fixture by one that counts.
func counted(f *fixture) *int {
	reads := 0
	f.Live = interceptor.NewClient(f.cluster.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			reads++
			return c.Get(ctx, key, obj, opts...)
		},
	})
	return &reads
}

// A new object needs one request.
func TestANewObjectIsCreatedWithoutARead(t *testing.T) {
	f := newFixture(t)
	reads := counted(f)
	f.mustApply(t, ownerClaim(), deployment("a:1"))
	if *reads != 0 || f.applies.Load() != 1 {
		t.Errorf("%d reads and %d applies, want none and 1", *reads, f.applies.Load())
	}
}

// The response to the apply that created the object was lost, and the cache does not contain it
// yet. It may be the same process, or another one after a crash.
func TestAnObjectWhoseCreationWasNotAnsweredIsOurs(t *testing.T) {
	lost := errors.New("the response was lost")
	for name, restart := range map[string]bool{"the same process": false, "another process": true} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.Client = interceptor.NewClient(f.cluster.(client.WithWatch), interceptor.Funcs{
				Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
					return errors.Join(c.Apply(ctx, obj, opts...), lost)
				},
			})
			if _, err := f.Apply(t.Context(), ownerClaim(), deployment("a:1")); !errors.Is(err, lost) {
				t.Fatalf("error %v, want %v", err, lost)
			}
			if restart {
				f.Applier = &Applier{Live: f.cluster, FieldOwner: fieldOwner}
			}
			f.Client = uncached(f)
			got := deployment("a:2")
			f.mustApply(t, ownerClaim(), got)
			if !metav1.IsControlledBy(got, owner()) || got.Spec.Template.Spec.Containers[0].Image != "a:2" {
				t.Errorf("the object is %+v", got)
			}
		})
	}
}

// The API server may check the permissions and the content of an apply before it looks for an
// existing object.
func TestARejectedCreationDoesNotHideTheOwner(t *testing.T) {
	kind := schema.GroupKind{Kind: "Service"}
	for name, rejection := range map[string]error{
		"forbidden": apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "web", errors.New("no")),
		"invalid":   apierrors.NewInvalid(kind, "web", nil), "bad request": apierrors.NewBadRequest("no"),
	} {
		t.Run(name, func(t *testing.T) {
			for _, existing := range []bool{true, false} {
				f := newFixture(t)
				if existing {
					f = newFixture(t, service())
				}
				f.Client = interceptor.NewClient(uncached(f).(client.WithWatch), interceptor.Funcs{
					Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
						return rejection
					},
				})
				_, err := f.Apply(t.Context(), ownerClaim(), service())
				var refused *NotOwnedError
				if errors.As(err, &refused) != existing || (!existing && !errors.Is(err, rejection)) {
					t.Errorf("the object exists: %v; error %v", existing, err)
				}
			}
		})
	}
}

// The cache does not contain an object that was just applied. A write is not even attempted.
func TestAnObjectThatWasAppliedIsReadIfTheCacheDoesNotContainIt(t *testing.T) {
	f := newFixture(t)
	f.mustApply(t, ownerClaim(), deployment("a:1"))
	f.Client = uncached(f)
	if f.mustApply(t, ownerClaim(), deployment("a:1")) {
		t.Error("what was applied already changed something")
	}
	if n := f.applies.Load(); n != 1 {
		t.Errorf("%d applies, want 1", n)
	}
}

// Another client creates the object between the read and the apply.
func TestAnObjectThatAppearsAfterTheReadIsNotTakenOver(t *testing.T) {
	f := newFixture(t)
	f.mustApply(t, ownerClaim(), service())
	mine := service()
	f.get(t, mine)
	if err := f.cluster.Delete(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	f.Live = interceptor.NewClient(f.cluster.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			err := c.Get(ctx, key, obj, opts...)
			if created := c.Create(ctx, service()); created != nil {
				return created
			}
			return err
		},
	})
	if _, err := f.Apply(t.Context(), ownerClaim(), service()); !apierrors.IsConflict(err) {
		t.Errorf("error %v, want a conflict", err)
	}
	after := service()
	f.get(t, after)
	if len(after.OwnerReferences) > 0 {
		t.Errorf("the object was touched: %+v", after.ObjectMeta)
	}
}

// A stale cache may still contain the deleted object of another owner.
func TestOwnershipInACacheIsNotBelievedEither(t *testing.T) {
	f := newFixture(t)
	f.mustApply(t, ownerClaim(), service())
	f.Client = interceptor.NewClient(f.cluster.(client.WithWatch), interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
			service().DeepCopyInto(obj.(*corev1.Service))
			return nil
		},
	})
	if _, err := f.Apply(t.Context(), ownerClaim(), service()); err != nil {
		t.Fatalf("error %v, although the object is ours by now", err)
	}
}

// A stale cache returns the object from before the last apply, with an outdated status.
func TestAnObjectFromBeforeTheLastApplyIsNotBelieved(t *testing.T) {
	f := newFixture(t)
	f.mustApply(t, ownerClaim(), deployment("a:1"))
	before := deployment("")
	f.get(t, before)
	f.mustApply(t, ownerClaim(), deployment("a:2"))
	reads := 0
	f.Live = interceptor.NewClient(f.cluster.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			reads++
			return c.Get(ctx, key, obj, opts...)
		},
	})
	f.Client = interceptor.NewClient(f.cluster.(client.WithWatch), interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
			before.DeepCopyInto(obj.(*appsv1.Deployment))
			return nil
		},
	})
	again := deployment("a:2")
	if f.mustApply(t, ownerClaim(), again) {
		t.Error("what was applied already changed something")
	}
	if again.ResourceVersion == before.ResourceVersion || again.Spec.Template.Spec.Containers[0].Image != "a:2" {
		t.Errorf("the Deployment is told to be as it was before: version %s, image %s",
			again.ResourceVersion, again.Spec.Template.Spec.Containers[0].Image)
	}

	// If nothing changed, the cache is enough.
	f.Client, reads = f.cluster, 0
	f.mustApply(t, ownerClaim(), deployment("a:2"))
	if reads > 0 || f.applies.Load() != 2 {
		t.Errorf("%d reads past the cache and %d applies, want none and 2", reads, f.applies.Load())
	}
}

func TestMarkedObjects(t *testing.T) {
	role := func(uid string) *rbacv1.Role {
		r := &rbacv1.Role{
			TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"},
			ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: "elsewhere"},
		}
		if uid != "" {
			r.Labels = map[string]string{"of": "owner"}
			r.Annotations = map[string]string{"uid": uid}
		}
		return r
	}
	claim := MarkedWith(map[string]string{"of": "owner"}, map[string]string{"uid": "owner-uid"})
	for name, test := range map[string]struct {
		existing *rbacv1.Role
		refused  bool
	}{
		"ours":                {existing: role("owner-uid")},
		"of an earlier owner": {existing: role("gone"), refused: true},
		"not marked":          {existing: role(""), refused: true},
		"nothing is there":    {},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			if test.existing != nil {
				f = newFixture(t, test.existing)
			}
			_, err := f.Apply(t.Context(), claim, role(""))
			var refused *NotOwnedError
			if errors.As(err, &refused) != test.refused || (err != nil && !test.refused) {
				t.Fatalf("error %v, refused should be %v", err, test.refused)
			}
		})
	}
}

func TestOnlyWhatIsMeantIsSent(t *testing.T) {
	d := deployment("a:1")
	d.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	d.Status.Replicas = 3
	got, err := toApply(d)
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]any{"app": "web"}
	want := map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "web", "namespace": "ns", "labels": labels},
		"spec": map[string]any{
			"replicas": int64(1), "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec": map[string]any{
					"containers": []any{map[string]any{
						"name": "web", "image": "a:1",
						"env": []any{map[string]any{"name": "A", "value": "1"}},
					}},
					"volumes": []any{map[string]any{"name": "tmp", "emptyDir": map[string]any{}}},
				},
			},
		},
	}
	if diff := cmp.Diff(want, got.Object); diff != "" {
		t.Errorf("content (-want +got):\n%s", diff)
	}
}

func TestAnObjectThatIsBeingDeletedIsLeftAlone(t *testing.T) {
	existing := service()
	existing.Finalizers = []string{"test/hold"}
	existing.DeletionTimestamp = ptr.To(metav1.Now())
	existing.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner(), corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
	f := newFixture(t, existing)
	if _, err := f.Apply(t.Context(), ownerClaim(), service()); !errors.Is(err, ErrTerminating) {
		t.Fatalf("error %v, want ErrTerminating", err)
	}
}

// TestAnotherVersionIsNotWritten checks that a decision based on a stale cache does not undo a
// later change of another client.
func TestAnotherVersionIsNotWritten(t *testing.T) {
	f := newFixture(t)
	first := deployment("one")
	f.mustApply(t, ownerClaim(), first)
	seen := first.ResourceVersion
	scaled := deployment("")
	f.get(t, scaled)
	scaled.Spec.Replicas = ptr.To[int32](5)
	if err := f.cluster.Update(t.Context(), scaled); err != nil {
		t.Fatal(err)
	}

	second := deployment("two")
	second.ResourceVersion = seen
	if _, err := f.Apply(t.Context(), ownerClaim(), second); !apierrors.IsConflict(err) {
		t.Errorf("an apply to version %s ended with %v, want a conflict", seen, err)
	}
	now := deployment("")
	f.get(t, now)
	if *now.Spec.Replicas != 5 {
		t.Errorf("%d replicas, want 5", *now.Spec.Replicas)
	}
	third := deployment("two")
	third.ResourceVersion = now.ResourceVersion
	if !f.mustApply(t, ownerClaim(), third) {
		t.Error("an apply to the present version changed nothing")
	}
}

// TestTheOrderOfOwnedFieldsSaysNothing checks that the order of owned fields does not matter. The
// API server and an unstructured object order them differently, so a Service with the ports 80 and
// 443 was once applied in every pass.
func TestTheOrderOfOwnedFieldsSaysNothing(t *testing.T) {
	owned := func(fields string) digest {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "us", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(fields),
		}}}}
		return ownedFields(service, "us")
	}
	server := owned(`{"f:ports":{"k:{\"port\":80}":{".":{}},"k:{\"port\":443}":{".":{}}}}`)
	unstructured := owned(`{"f:ports":{"k:{\"port\":443}":{".":{}},"k:{\"port\":80}":{".":{}}}}`)
	if server != unstructured {
		t.Error("the same fields in another order are taken for other fields")
	}
	if server == owned(`{"f:ports":{"k:{\"port\":80}":{".":{}}}}`) {
		t.Error("fewer fields are taken for the same")
	}
}
