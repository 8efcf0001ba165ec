package uninstall

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/installation"
	"github.com/coder-k8s/coder-k8s/internal/kube/apply"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// failing is a client that cannot delete control planes.
type failing struct{ client.Client }

func (f failing) Delete(ctx context.Context, obj client.Object, options ...client.DeleteOption) error {
	if obj.GetObjectKind().GroupVersionKind().Kind == "CoderControlPlane" {
		return errors.New("no answer")
	}
	return f.Client.Delete(ctx, obj, options...)
}

// keptInTwoRuns runs --control-planes=keep until it fails, and then again. It returns the
// outputs of both runs.
func (c *cluster) keptInTwoRuns(t *testing.T) (manifests, said string) {
	t.Helper()
	var out, progress strings.Builder
	u := &uninstaller{
		kube: failing{c.kube}, step: polltest.Timeout(), keep: true,
		namespace: installation.Namespace, manifests: &out, progress: &progress,
	}
	if err := u.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := u.run(t.Context()); err == nil {
		t.Fatal("the first run did not fail")
	}
	moreManifests, saidMore := c.must(t, cli.ExitOK, "--control-planes=keep", "--yes")
	return out.String() + moreManifests, progress.String() + saidMore
}

// TestTakenBack checks that, after --control-planes=keep, the printed commands make the
// applied objects the owners of their Secrets, and that the operator adopts the other
// objects. The first run fails after it has deleted some objects, so both runs together
// must print everything, and an object may be in the manifests twice.
func TestTakenBack(t *testing.T) {
	c := newCluster(t)
	c.install(t)
	c.all(t)
	rights := c.rightsElsewhere(t)
	// Users of the namespaces may choose these names.
	forged := rights.DeepCopy()
	forged.ObjectMeta = metav1.ObjectMeta{Namespace: rights.Namespace, Name: "x;touch pwned;", Labels: rights.Labels, Annotations: rights.Annotations}
	c.create(t, forged)
	t.Cleanup(func() {
		for _, role := range []*rbacv1.Role{rights, forged} {
			if err := c.kube.Delete(context.Background(), role); err != nil {
				t.Error(err)
			}
		}
	})
	secret := &corev1.Secret{}
	c.get(t, secret, c.team, "coder")
	c.create(t, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{
		Namespace: c.team, Name: "x\n  kubectl create namespace pwned", OwnerReferences: secret.OwnerReferences,
	}})
	secret.OwnerReferences = append(secret.OwnerReferences, metav1.OwnerReference{
		APIVersion: "example.com/v1", Kind: "Holder", Name: "'$(touch pwned)'", UID: "1",
	})
	c.update(t, secret)
	manifests, said := c.keptInTwoRuns(t)
	if documents := strings.Count(manifests, "---\n"); documents != 6 {
		t.Errorf("the two runs wrote %d manifests, not five and the one that was left:\n%s", documents, manifests)
	}
	c.emptied(t)
	c.install(t)

	directory := t.TempDir()
	if err := os.WriteFile(directory+"/coders.yaml", []byte(manifests), 0o600); err != nil {
		t.Fatal(err)
	}
	var script []string
	for line := range strings.Lines(said) {
		if command, is := strings.CutPrefix(line, "  kubectl "); is {
			script = append(script, "kubectl "+strings.TrimSpace(command))
		}
	}
	if len(script) != 8 {
		t.Fatalf("it prints %d commands, not one for the objects, one for each of five Secrets, and in both runs one for the Role:\n%s", len(script), said)
	}
	// The command for the objects is the last one, and the first one to run.
	slices.Reverse(script)
	// The commands can be repeated, and kubectl says so while kube-apiserver does not know a new definition (503).
	polltest.Eventually(t, "the commands succeed", func(ctx context.Context) error {
		shell := exec.CommandContext(ctx, "sh", "-euc", strings.Join(script, "\n"))
		shell.Dir = directory
		shell.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig, "PATH="+os.Getenv("KUBEBUILDER_ASSETS")+":"+os.Getenv("PATH"))
		out, err := shell.CombinedOutput()
		if err != nil && !strings.Contains(string(out), "There can be a delay") {
			t.Fatalf("%v: %s\n%s", err, out, said)
		}
		return err
	})

	if _, err := os.Stat(directory + "/pwned"); err == nil {
		t.Errorf("the commands run what the name of an object contains:\n%s", said)
	}
	for _, d := range installation.Definitions() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(d.Resource.GroupVersion().WithKind(d.Kind + "List"))
		want := 1
		if d.Kind == "CoderTemplateTest" {
			// It would run again.
			want = 0
		}
		if err := c.kube.List(t.Context(), list, client.InNamespace(c.team)); err != nil || len(list.Items) != want {
			t.Fatalf("every %s: %v, %d of them", d.Kind, err, len(list.Items))
		}
		if want == 0 {
			continue
		}
		owner := &list.Items[0]
		secret := &corev1.Secret{}
		if err := c.kube.Get(t.Context(), client.ObjectKeyFromObject(owner), secret); err != nil {
			t.Fatal(err)
		}
		if !metav1.IsControlledBy(secret, owner) {
			t.Errorf("Secret %s has the owners %v, not %s %s", secret.Name, secret.OwnerReferences, d.Kind, owner.GetUID())
		}
		// The controllers claim their objects in the same way.
		claim := apply.Adopting(apply.ControlledBy(owner, runtime.NewScheme()), "coder.com/adopt", d.Kind+"/"+owner.GetName(), nil)
		deployment := &appsv1.Deployment{}
		if err := c.kube.Get(t.Context(), client.ObjectKeyFromObject(owner), deployment); err != nil {
			t.Fatal(err)
		}
		if !claim.Holds(deployment) {
			t.Errorf("Deployment %s would not be taken over: %v", deployment.Name, deployment.Annotations)
		}
		if d.Kind != "CoderControlPlane" {
			continue
		}
		c.get(t, rights, rights.Namespace, rights.Name)
		if uid := rights.Annotations["coder.com/workspace-rbac-owner-uid"]; uid != string(owner.GetUID()) {
			t.Errorf("Role %s in another namespace has the owner %q, not %s", rights.Name, uid, owner.GetUID())
		}
	}
}

// TestTheDefinitionsStay checks the instructions with --keep-definitions: nothing has to be
// applied.
func TestTheDefinitionsStay(t *testing.T) {
	u := &uninstaller{keepDefinitions: true}
	if said := u.wayBack(); !strings.Contains(said, "install coder-k8s again") || strings.Contains(said, "kubectl apply") {
		t.Errorf("it says %q", said)
	}
}

// The namespaces of the operator are found in both forms of its flag.
func TestWatched(t *testing.T) {
	deployment := func(args ...string) appsv1.Deployment {
		return appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Args: args}}},
		}}}
	}
	u := &uninstaller{watchNamespaces: []string{"a"}, operators: []appsv1.Deployment{
		deployment("--watch-namespaces=b,c"), deployment("--watch-namespaces", "d"), deployment("--app=mcp-http"),
	}}
	if diff := cmp.Diff([]string{"a", "b", "c", "d"}, u.watched()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
