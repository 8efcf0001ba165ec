package uninstall

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/installation"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// Coder deployments continue to run without an operator: the garbage collector deletes none
// of their objects although the definitions are deleted, and the manifests can be applied
// again.
func TestKeep(t *testing.T) {
	c := newCluster(t)
	c.install(t)
	c.all(t)
	c.labelledWorkspace(t)
	before := c.left(t)
	_, said := c.must(t, cli.ExitOK, "--control-planes=keep", "--dry-run")
	says(t, said, "Labels and annotations, which Coder cannot store, are lost (workspaces, templates and users that have some: 1)")
	if !strings.Contains(said, "(dry run) Namespace coder-system is deleted") || !strings.Contains(said, "(dry run) Secret team/coder no longer belongs to CoderControlPlane team/coder") {
		t.Errorf("the dry run says:\n%s", said)
	}
	if diff := cmp.Diff(before, c.left(t)); diff != "" {
		t.Errorf("the dry run changed something (-before +after):\n%s", diff)
	}
	manifests, said := c.must(t, cli.ExitOK, "--control-planes=keep", "--yes")
	says(t, said, "The Coders keep running.")
	c.nothingLeft(t)
	if documents := strings.Count(manifests, "---\n"); documents != 5 || strings.Contains(manifests, "CoderTemplateTest") || strings.Contains(manifests, "status") || strings.Contains(manifests, "finalizers") {
		t.Errorf("it wrote:\n%s", manifests)
	}
	// When the garbage collector has deleted an object with an unknown owner, it has
	// processed the others too.
	c.collected(t)
	for name, adopt := range map[string]string{"coder": "CoderControlPlane/coder", "builders": "CoderProvisioner/builders", "paris": "CoderWorkspaceProxy/paris"} {
		if err := c.children(t, name, true); err != nil {
			t.Error(err)
		}
		d := &appsv1.Deployment{}
		c.get(t, d, c.team, name)
		if got := d.Annotations["coder.com/adopt"]; got != adopt || len(d.OwnerReferences) > 0 {
			t.Errorf("Deployment %s has annotation %q and owners %v", name, got, d.OwnerReferences)
		}
	}
	_, said = c.must(t, cli.ExitOK, "--control-planes=keep", "--yes")
	if strings.Count(said, "\n") != 1 {
		t.Errorf("a second time it says:\n%s", said)
	}
}

func workspaceRecords() installation.Definition {
	all := installation.RecordDefinitions()
	return all[slices.IndexFunc(all, func(d installation.Definition) bool { return d.Kind == "CoderWorkspaceRecord" })]
}

// labelledWorkspace creates the record of a workspace with labels.
func (c *cluster) labelledWorkspace(t *testing.T) {
	t.Helper()
	d := workspaceRecords()
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"controlPlane": "coder", "id": "3b241101-e2bb-4255-8caf-4136c566a962", "kept": `{"labels":{"team":"a"}}`,
	}}}
	obj.SetGroupVersionKind(d.Resource.GroupVersion().WithKind(d.Kind))
	obj.SetNamespace(c.team)
	obj.SetName("coder.ada.dev")
	// The admission policy of the records rejects all other users.
	config := rest.CopyConfig(c.config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + installation.Namespace + ":" + installation.Name, Groups: []string{"system:masters"},
	}
	kube, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	operator := *c
	operator.kube = kube
	operator.create(t, obj)
}

// collected waits until the garbage collector has deleted an object with a missing owner.
func (c *cluster) collected(t *testing.T) {
	t.Helper()
	probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.team, Name: "probe", OwnerReferences: []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "ConfigMap", Name: "never", UID: "never",
	}}}}
	c.create(t, probe)
	polltest.Eventually(t, "collecting garbage", func() error {
		if c.exists(t, "/v1/ConfigMap", c.team, "probe") {
			return errors.New("it is still there")
		}
		return nil
	})
}

// If the operator runs, it removes its objects in Coder, dependents of a control plane
// first, and everything is deleted.
func TestRemove(t *testing.T) {
	c := newCluster(t)
	c.install(t)
	c.all(t)
	operator := c.operator(t)
	mine := c.othersObjects(t)
	_, said := c.must(t, cli.ExitPartial, "--control-planes=remove", "--yes")
	if order := operator(); len(order) != 4 || order[3] != "CoderControlPlane" {
		t.Errorf("the order is %v", order)
	}
	says(t, said, "Namespace coder-system stays, because it contains objects of other software: ConfigMap mine")
	if diff := cmp.Diff([]string{"Namespace coder-system"}, c.left(t)); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
	for _, obj := range mine {
		if err := c.kube.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			t.Errorf("what is not ours is gone: %v", err)
		}
	}
	c.removed(t)
	// Once the obstacle is removed, the rest is deleted.
	c.remove(t, mine[0])
	c.must(t, cli.ExitOK, "--control-planes=remove", "--yes")
	c.nothingLeft(t)
}

// othersObjects creates objects of other users, with names and places similar to those of
// the installation.
func (c *cluster) othersObjects(t *testing.T) []client.Object {
	t.Helper()
	objects := []client.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: installation.Namespace, Name: "mine"}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "coder-k8s-mine"}},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: c.team, Name: "mine", Labels: map[string]string{"app.kubernetes.io/managed-by": "coder-k8s"}}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.team, Name: installation.APIServiceSecret}},
	}
	for _, obj := range objects {
		c.create(t, obj)
	}
	return objects
}

// Without an operator nothing hangs: the command reports what remains in Coder and deletes
// the rest, even if the APIService references a missing Service, which blocks the deletion
// of namespaces.
func TestRemoveWithoutOperator(t *testing.T) {
	c := newCluster(t)
	c.install(t)
	c.all(t)
	rights := c.rightsElsewhere(t)
	if err := c.kube.DeleteAllOf(t.Context(), &appsv1.Deployment{}, client.InNamespace(installation.Namespace)); err != nil {
		t.Fatal(err)
	}
	_, said := c.must(t, cli.ExitPartial, "--control-planes=remove", "--yes")
	says(t, said,
		"No pod of the operator is available in namespace coder-system, so nothing is removed in Coder.",
		`CoderProvisioner team/builders: its key "team-builders" stays in Coder; delete it there: coder provisioner keys delete team-builders`,
		`CoderBackup team/first: its files stay in the directory "coder/first" of its volume`,
		`CoderTemplateTest team/nightly: its workspace may stay in Coder; delete it there: coder delete tester/test-1`,
		`CoderWorkspaceProxy team/paris: its registration "paris" stays in Coder; delete it there: coder wsproxy delete paris`,
		"CoderControlPlane team/coder: the operator's token stays in the database of the Coder at https://coder.example.com")
	c.nothingLeft(t)
	if err := c.kube.Get(t.Context(), client.ObjectKeyFromObject(rights), rights); !gone(err) {
		t.Errorf("the rights in another namespace: %v", err)
	}
	c.removed(t)
}

// Where a backup stays depends on its destination.
func TestWhereABackupStays(t *testing.T) {
	for want, fields := range map[string]map[string]any{
		`its files stay in the directory "coder/first" of its volume`: {"status": map[string]any{"directory": "coder/first"}},
		`its files stay in the directory "coder/first" of the bucket "backups"`: {
			"spec":   map[string]any{"destination": map[string]any{"s3": map[string]any{"bucket": "backups"}}},
			"status": map[string]any{"directory": "coder/first"},
		},
		`its Backup "first" of CloudNativePG stays`: {"status": map[string]any{"cloudNativePGBackupName": "first"}},
	} {
		backup := object{&unstructured.Unstructured{Object: fields}, installation.Definition{Kind: "CoderBackup"}}
		if got := inCoder(backup); !strings.HasSuffix(got, want) {
			t.Errorf("it says %s, want %s", got, want)
		}
	}
}

// rightsElsewhere creates a Role as the operator would in another namespace.
func (c *cluster) rightsElsewhere(t *testing.T) *rbacv1.Role {
	t.Helper()
	owner := &unstructured.Unstructured{}
	owner.SetAPIVersion("coder.com/v1alpha1")
	owner.SetKind("CoderControlPlane")
	c.get(t, owner, c.team, "coder")
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "coder-workspaces",
		Labels:      map[string]string{"app.kubernetes.io/managed-by": "coder-k8s"},
		Annotations: map[string]string{"coder.com/workspace-rbac-owner-uid": string(owner.GetUID())},
	}}
	c.create(t, role)
	return role
}

// An operator that does not react delays the command only until the timeout, and finalizers
// of others are kept.
func TestRemoveIsBounded(t *testing.T) {
	c := newCluster(t)
	c.install(t)
	d := installation.Definitions()[5]
	held := c.coder(t, d, "coder", map[string]any{"url": "https://coder.example.com"})
	held.SetFinalizers(append(held.GetFinalizers(), "example.com/hold"))
	c.update(t, held)
	t.Cleanup(func() {
		held.SetFinalizers(nil)
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		if err := c.kube.Patch(context.Background(), held, patch); err != nil {
			t.Error(err)
		}
	})
	var progress bytes.Buffer
	u := &uninstaller{
		kube: c.kube, timeout: 2 * time.Second, step: 5 * time.Second,
		namespace: installation.Namespace, manifests: &progress, progress: &progress,
	}
	if err := u.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	var partly *cli.ExitError
	err := u.run(t.Context())
	if !errors.As(err, &partly) || partly.Code != cli.ExitPartial {
		t.Fatalf("it ends with %v:\n%s", err, progress.String())
	}
	said := strings.ReplaceAll(err.Error(), c.team+"/", "team/")
	says(t, said,
		"CoderControlPlane team/coder is not deleted yet, because it has finalizers of other software: example.com/hold",
		"CustomResourceDefinition codercontrolplanes.coder.com is still being deleted, because these objects have finalizers of other controllers: CoderControlPlane team/coder (example.com/hold)")
}

// The command refuses to run if another installation exists or if Helm installed the
// operator.
func TestRefusals(t *testing.T) {
	c := newCluster(t)
	c.install(t)
	before := c.left(t)
	operator := &appsv1.Deployment{}
	c.get(t, operator, installation.Namespace, installation.Name)
	second := operator.DeepCopy()
	second.ObjectMeta = metav1.ObjectMeta{Namespace: "default", Name: "coder-k8s", Labels: operator.Labels}
	c.create(t, second)
	_, said := c.must(t, cli.ExitFailure, "--control-planes=remove", "--yes")
	says(t, said, "there is another installation, Deployment default/coder-k8s, ")
	c.remove(t, second)
	operator.Annotations = map[string]string{"meta.helm.sh/release-name": "mine", "meta.helm.sh/release-namespace": "coder-system"}
	c.update(t, operator)
	_, said = c.must(t, cli.ExitFailure, "--control-planes=remove", "--yes")
	says(t, said, "the operator, Deployment coder-system/coder-k8s, was installed by Helm: use helm uninstall mine -n coder-system")
	c.all(t)
	end := c.operator(t)
	c.must(t, cli.ExitOK, "--control-planes=remove", "--control-planes-only", "--yes")
	if order := end(); len(order) != 4 {
		t.Errorf("removed: %v", order)
	}
	if diff := cmp.Diff(before, c.left(t)); diff != "" {
		t.Errorf("with --control-planes-only the installation changed (-before +after):\n%s", diff)
	}
	operator.Annotations = nil
	c.update(t, operator)
}

// With --keep-definitions, the next installation finds everything unchanged.
func TestKeepDefinitions(t *testing.T) {
	c := newCluster(t)
	c.install(t)
	c.all(t)
	stdout, _ := c.must(t, cli.ExitOK, "--control-planes=keep", "--keep-definitions", "--yes")
	if stdout != "" {
		t.Errorf("it wrote %q", stdout)
	}
	left := c.left(t)
	if slices.ContainsFunc(left, func(name string) bool { return !strings.HasPrefix(name, "CustomResourceDefinition ") }) || len(left) != len(installation.AllDefinitions()) {
		t.Errorf("it left %v", left)
	}
	for _, d := range installation.Definitions() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(d.Resource.GroupVersion().WithKind(d.Kind + "List"))
		if err := c.kube.List(t.Context(), list); err != nil || len(list.Items) != 1 || len(list.Items[0].GetFinalizers()) > 0 {
			t.Errorf("%s: %v, %v", d.Kind, err, list.Items)
		}
	}
	d := &appsv1.Deployment{}
	if err := c.kube.Get(t.Context(), client.ObjectKey{Namespace: c.team, Name: "coder"}, d); err != nil || metav1.GetControllerOf(d) == nil {
		t.Errorf("the Deployment: %v, owners %v", err, d.OwnerReferences)
	}
}

// After kubectl delete -k, everything waits for an operator that no longer exists. The
// Coder deployments can still be kept, because the finalizers prevent the deletion of the
// owned objects.
func TestDeletedByMistake(t *testing.T) {
	c := newCluster(t)
	c.install(t)
	c.all(t)
	for _, d := range installation.AllDefinitions() {
		crd := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: d.Name}}
		crd.SetGroupVersionKind(installation.DefinitionKind())
		c.remove(t, crd)
	}
	for _, obj := range []client.Object{
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: installation.Namespace, Name: installation.Name}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "coder-k8s-controller"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: installation.Namespace}},
	} {
		c.remove(t, obj)
	}
	u := &uninstaller{kube: c.kube}
	polltest.Eventually(t, "the deletion of the control plane", func() error {
		// kube-apiserver may have to be reminded of the definition here too.
		if _, err := u.stillThere(t.Context(), installation.AllDefinitions()); err != nil {
			return err
		}
		obj := &metav1.PartialObjectMetadata{}
		obj.SetGroupVersionKind(installation.Definitions()[5].Resource.GroupVersion().WithKind("CoderControlPlane"))
		if err := c.kube.Get(t.Context(), client.ObjectKey{Namespace: c.team, Name: "coder"}, obj); err != nil {
			return err
		}
		if obj.DeletionTimestamp == nil {
			return errors.New("it did not begin")
		}
		return nil
	})
	_, said := c.must(t, cli.ExitFailure, "--control-planes=keep", "--keep-definitions", "--yes")
	says(t, said, "is already being deleted, which cannot be undone")
	manifests, _ := c.must(t, cli.ExitOK, "--control-planes=keep", "--yes")
	// The schedule has no finalizer, so it is gone.
	if documents := strings.Count(manifests, "---\n"); documents != 4 {
		t.Errorf("it wrote:\n%s", manifests)
	}
	c.nothingLeft(t)
	c.collected(t)
	c.kept(t)
}

// The namespace is not deleted if it contains objects of others, even if those have an
// owner that this command does not know, such as the volumes of a database.
func TestTheNamespaceStaysForWhatOthersOwn(t *testing.T) {
	c := newCluster(t)
	c.install(t)
	owner := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: installation.Namespace, Name: "database"}}
	c.create(t, owner)
	volume := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: installation.Namespace, Name: "database-1", OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "ServiceAccount", Name: owner.Name, UID: owner.UID, Controller: ptr.To(true),
		}}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
		},
	}
	c.create(t, volume)
	// No controller runs that would remove its finalizer.
	volume.Finalizers = nil
	c.update(t, volume)
	_, said := c.must(t, cli.ExitPartial, "--control-planes=remove", "--yes")
	says(t, said, "Namespace coder-system stays, because it contains objects of other software: PersistentVolumeClaim database-1")
	c.remove(t, volume)
}

// Coder deployments that are kept with their definitions also keep their namespace.
func TestKeepDefinitionsKeepsTheNamespaceOfACoder(t *testing.T) {
	c := newCluster(t)
	c.install(t)
	c.team = installation.Namespace
	c.all(t)
	_, said := c.must(t, cli.ExitPartial, "--control-planes=keep", "--keep-definitions", "--yes")
	says(t, said, "Namespace coder-system stays, because it contains objects of other software: ")
	c.kept(t)
}

// An object that has another owner as well is kept, as the garbage collector would keep it.
func TestRemoveLeavesWhatAnotherOwnsToo(t *testing.T) {
	c := newCluster(t)
	c.install(t)
	c.all(t)
	c.operator(t)
	mine := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.team, Name: "mine"}}
	c.create(t, mine)
	shared := &corev1.ServiceAccount{}
	c.get(t, shared, c.team, "coder")
	shared.OwnerReferences = append(shared.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: mine.Name, UID: mine.UID})
	c.update(t, shared)
	// The garbage collector would do the same, and may be faster.
	var said bytes.Buffer
	u := &uninstaller{kube: c.kube, namespace: installation.Namespace, progress: &said}
	if err := u.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := u.eachChild(t.Context(), u.objects, u.collect); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said.String(), "Secret "+c.team+"/coder is deleted") {
		t.Errorf("it says:\n%s", said.String())
	}
	if err := c.kube.Get(t.Context(), client.ObjectKeyFromObject(shared), shared); err != nil || len(shared.OwnerReferences) != 1 || shared.DeletionTimestamp != nil {
		t.Errorf("what belongs to a ConfigMap, too: %v, owners %v", err, shared.OwnerReferences)
	}
	c.must(t, cli.ExitOK, "--control-planes=remove", "--yes")
}

// Two installations that share the definitions each have their own namespaces.
func TestControlPlanesOnlyStaysInTheNamespacesOfTheOperator(t *testing.T) {
	c := newCluster(t)
	c.install(t)
	c.all(t)
	operator := &appsv1.Deployment{}
	c.get(t, operator, installation.Namespace, installation.Name)
	args := operator.Spec.Template.Spec.Containers[0].Args
	for namespaces, stay := range map[string]bool{"another,third": true, "another," + c.team: false} {
		operator.Spec.Template.Spec.Containers[0].Args = append(slices.Clone(args), "--watch-namespaces="+namespaces)
		u := &uninstaller{kube: c.kube, namespace: installation.Namespace, controlPlanesOnly: true}
		c.update(t, operator)
		if err := u.look(t.Context()); err != nil || (len(u.objects) == 0) != stay {
			t.Errorf("--watch-namespaces=%s: %v, %v", namespaces, err, u.objects)
		}
	}
	// Without the Deployment, the flag provides the namespaces.
	c.remove(t, operator)
	c.must(t, cli.ExitOK, "--control-planes=remove", "--control-planes-only", "--watch-namespaces=another,third", "--yes")
	for _, d := range installation.Definitions() {
		u := &uninstaller{kube: c.kube}
		if found, err := u.objectsOf(t.Context(), d); err != nil || len(found) != 1 || found[0].GetDeletionTimestamp() != nil {
			t.Errorf("with --watch-namespaces=another,third these are left of %s: %v, %v", d.Kind, found, err)
		}
	}
	// No operator runs that could remove the finalizers, so the command reports what
	// remains in Coder.
	c.must(t, cli.ExitPartial, "--control-planes=remove", "--yes")
}

// restarting shows a pod of the operator after the first owner reference was removed, as if
// something scaled the Deployment up again.
type restarting struct {
	client.Client
	restarted bool
}

func (r *restarting) Patch(ctx context.Context, obj client.Object, patch client.Patch, options ...client.PatchOption) error {
	if _, child := obj.(*metav1.PartialObjectMetadata); child {
		r.restarted = true
	}
	return r.Client.Patch(ctx, obj, patch, options...)
}

func (r *restarting) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := r.Client.List(ctx, list, options...)
	if found, ok := list.(*metav1.PartialObjectMetadataList); ok && found.Kind == "PodList" && r.restarted {
		found.Items = append(found.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Controller: ptr.To(true)}},
		}})
	}
	return err
}

// An operator that was started again restores the owner references, so nothing may be
// deleted then.
func TestKeepDeletesNothingWhileTheOperatorRuns(t *testing.T) {
	c := newCluster(t)
	c.install(t)
	c.all(t)
	var said bytes.Buffer
	u := &uninstaller{
		kube: &restarting{Client: c.kube}, timeout: time.Second, step: time.Second, keep: true,
		namespace: installation.Namespace, manifests: &said, progress: &said,
	}
	if err := u.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := u.run(t.Context()); err == nil || !strings.Contains(err.Error(), "the operator runs again in namespace coder-system") {
		t.Errorf("it ends with %v", err)
	}
	for _, o := range u.objects {
		if now, err := u.again(t.Context(), o); err != nil || now == nil || now.GetDeletionTimestamp() != nil {
			t.Errorf("%s: %v, %v", o, now, err)
		}
	}
	c.operator(t)
	c.must(t, cli.ExitOK, "--control-planes=remove", "--yes")
}

func TestCommandLine(t *testing.T) {
	for args, want := range map[string]string{
		"":                      `--control-planes is "": specify whether Coders keep running (keep) or are removed (remove)`,
		"--control-planes=stop": `--control-planes is "stop"`,
		"--control-planes=remove --keep-definitions":      "--keep-definitions requires --control-planes=keep",
		"--control-planes=keep --timeout=0s":              "--timeout is 0s",
		"--control-planes=remove --watch-namespaces=team": "--watch-namespaces requires --control-planes-only",
		"everything": `"everything" is one argument too many`,
	} {
		t.Run(args, func(t *testing.T) {
			c := &cluster{kubeconfig: "/does/not/exist"}
			code, _, said := c.uninstall(t.Context(), strings.Fields(args)...)
			if code != cli.ExitUsage || !strings.Contains(said, want) {
				t.Errorf("exit code %d, it says:\n%s", code, said)
			}
		})
	}
}

// Only yes is accepted, and Ctrl-C ends the question.
func TestConfirmation(t *testing.T) {
	interrupted, interrupt := context.WithCancel(t.Context())
	interrupt()
	silence, user := io.Pipe()
	t.Cleanup(func() { _ = user.Close() })
	for name, c := range map[string]struct {
		ctx  context.Context
		in   io.Reader
		want string
	}{
		"yes":          {t.Context(), strings.NewReader(" yes\n"), ""},
		"another word": {t.Context(), strings.NewReader("y\n"), `nothing was done, because the answer was "y"`},
		"end of input": {t.Context(), strings.NewReader(""), `nothing was done, because the answer was ""`},
		"Ctrl-C":       {interrupted, silence, "context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &options{streams: genericiooptions.IOStreams{In: c.in, ErrOut: io.Discard}}
			got := ""
			if err := o.ask(c.ctx); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("it ends with %q, want %q", got, c.want)
			}
		})
	}
}

// The deletion of a definition continues although kube-apiserver stopped retrying.
func TestADeletionThatKubernetesForgotGoesOn(t *testing.T) {
	for reason, message := range map[string]string{
		"InstanceDeletionFailed": "could not list instances: storage is (re)initializing",
		"InstanceDeletionCheck":  "could not confirm zero CustomResources remaining: context deadline exceeded",
	} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testAForgottenDeletionGoesOn(t, reason, message) })
		})
	}
}

func testAForgottenDeletionGoesOn(t *testing.T, reason, message string) {
	d := workspaceRecords()
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(installation.DefinitionKind())
	crd.SetName(d.Name)
	crd.SetFinalizers([]string{"customresourcecleanup.apiextensions.k8s.io"})
	crd.Object["spec"] = map[string]any{"names": map[string]any{"kind": d.Kind}}
	crd.Object["status"] = map[string]any{"conditions": []any{map[string]any{
		"type": "Terminating", "status": "True", "reason": reason, "message": message,
	}}}
	reminded := 0
	kube := fake.NewClientBuilder().WithObjects(crd).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, _ client.Patch, _ ...client.PatchOption) error {
			// kube-apiserver retries the deletion when the definition changes.
			reminded++
			obj.SetFinalizers(nil)
			return c.Update(ctx, obj)
		},
	}).Build()
	u := &uninstaller{kube: kube, step: 5 * poll, progress: io.Discard}
	if err := u.deleteDefinitions(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(u.stayed) > 0 || reminded != 1 {
		t.Errorf("reminded %d times, and says %q", reminded, u.stayed)
	}
}

// An object that keeps one of our owners would be deleted with that owner.
func TestAnObjectOfTwoOwnersLosesBoth(t *testing.T) {
	child := &corev1.ServiceAccount{}
	child.SetNamespace("team")
	child.SetName("shared")
	owners := map[types.UID]object{}
	for _, name := range []string{"a", "b"} {
		d := installation.Definitions()[0]
		o := object{&unstructured.Unstructured{}, d}
		o.SetGroupVersionKind(d.Resource.GroupVersion().WithKind(d.Kind))
		o.SetNamespace("team")
		o.SetName(name)
		o.SetUID(types.UID("uid-" + name))
		owners[o.GetUID()] = o
		child.OwnerReferences = append(child.OwnerReferences, metav1.OwnerReference{
			APIVersion: d.Resource.GroupVersion().String(), Kind: d.Kind, Name: name, UID: o.GetUID(),
		})
	}
	kube := fake.NewClientBuilder().WithObjects(child).Build()
	var said bytes.Buffer
	u := &uninstaller{kube: kube, step: 5 * poll, progress: &said}
	if err := u.eachChildOf(t.Context(), corev1.SchemeGroupVersion.WithKind("ServiceAccount"), "team", owners, u.disown); err != nil {
		t.Fatal(err)
	}
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(child), child); err != nil {
		t.Fatal(err)
	}
	if len(child.OwnerReferences) > 0 {
		t.Errorf("the owners %v are left; it says\n%s", child.OwnerReferences, &said)
	}
}

// kube-apiserver refuses a change for some seconds after a definition was deleted, because it cannot apply a
// MutatingAdmissionPolicy. The command repeats the change, for a limited time.
func TestPolicyThatCannotBeAppliedYet(t *testing.T) {
	for name, c := range map[string]struct {
		refusals int
		want     string
	}{
		"for a moment": {3, ""},
		"for too long": {1000, "There can be a delay"},
	} {
		test := func(t *testing.T) {
			d := installation.Definitions()[0]
			o := &unstructured.Unstructured{}
			o.SetGroupVersionKind(d.Resource.GroupVersion().WithKind(d.Kind))
			o.SetNamespace("team")
			o.SetName("coder")
			o.SetFinalizers([]string{d.Finalizer, "others.example.com/kept"})
			left := c.refusals
			kube := fake.NewClientBuilder().WithObjects(o.DeepCopy()).WithInterceptorFuncs(interceptor.Funcs{
				Patch: func(ctx context.Context, kube client.WithWatch, obj client.Object, patch client.Patch, options ...client.PatchOption) error {
					if left--; left >= 0 {
						return apierrors.NewServiceUnavailable("Resource kind X not found. There can be a delay between when " +
							"CustomResourceDefinitions are created and when they are available.")
					}
					return kube.Patch(ctx, obj, patch, options...)
				},
			}).Build()
			u := &uninstaller{kube: kube, step: 5 * poll, progress: io.Discard}
			if err := kube.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
				t.Fatal(err)
			}
			err := u.release(t.Context(), object{o, d})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("it ends with %v, want %q", err, c.want)
			}
			if c.want == "" && !slices.Equal(o.GetFinalizers(), []string{"others.example.com/kept"}) {
				t.Errorf("the finalizers are %q", o.GetFinalizers())
			}
		}
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
}
