package uninstall

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/installation"
)

// annotationReminded is the time of the last attempt to make kube-apiserver retry a
// deletion.
const annotationReminded = "coder.com/deletion-reminded-at"

// sweep selects the objects of an installation of one kind: those with its label, and those
// with one of these names.
type sweep struct {
	kind schema.GroupVersionKind
	// everywhere selects objects in all namespaces, instead of the operator's namespace.
	everywhere bool
	names      []string
	// prefix selects objects whose names the operator generates.
	prefix string
}

func kind(group, name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: "v1", Kind: name}
}

// sweeps returns the sweeps in the order of deletion: writers first, then what they need.
func sweeps() []sweep {
	const (
		rbac       = "rbac.authorization.k8s.io"
		admission  = "admissionregistration.k8s.io"
		monitoring = "monitoring.coreos.com"
		certs      = "cert-manager.io"
	)
	return []sweep{
		{kind: kind("policy", "PodDisruptionBudget")},
		{kind: kind("networking.k8s.io", "NetworkPolicy")},
		{kind: kind("networking.k8s.io", "Ingress")},
		{kind: kind(monitoring, "ServiceMonitor"), everywhere: true},
		{kind: kind(monitoring, "PrometheusRule"), everywhere: true},
		{kind: kind(certs, "Certificate")},
		{kind: kind(certs, "Issuer")},
		{kind: kind("", "Service")},
		{kind: kind("", "ConfigMap"), everywhere: true},
		{kind: kind("", "Secret"), names: []string{installation.APIServiceSecret}},
		{kind: kind("coordination.k8s.io", "Lease"), names: []string{installation.LeaseName, installation.APIServerLeaseName}, prefix: "coder-k8s-apiserver"},
		{kind: kind(admission, "MutatingAdmissionPolicyBinding")},
		{kind: kind(admission, "MutatingAdmissionPolicy")},
		{kind: kind(admission, "ValidatingAdmissionPolicyBinding")},
		{kind: kind(admission, "ValidatingAdmissionPolicy")},
		{kind: kind(rbac, "ClusterRoleBinding")},
		{kind: kind(rbac, "RoleBinding"), everywhere: true},
		{kind: kind(rbac, "ClusterRole"), names: installation.RoleNames()},
		{kind: kind(rbac, "Role"), everywhere: true},
		{kind: kind("", "ServiceAccount")},
		{kind: kind("scheduling.k8s.io", "PriorityClass")},
		{kind: kind("flowcontrol.apiserver.k8s.io", "FlowSchema")},
	}
}

// tearDown removes the installation itself. The APIService is deleted first, because a
// namespace cannot be deleted while an API group is unavailable. Then follow the operator,
// its objects, and last the namespace.
func (u *uninstaller) tearDown(ctx context.Context) error {
	if err := u.deleteAPIService(ctx); err != nil {
		return err
	}
	for i := range u.operators {
		d := &u.operators[i]
		if err := u.delete(ctx, d, fmt.Sprintf("Deployment %s/%s", d.Namespace, d.Name)); err != nil {
			return err
		}
	}
	if !u.keepDefinitions {
		if err := u.deleteDefinitions(ctx); err != nil {
			return err
		}
	}
	for _, s := range sweeps() {
		if err := u.sweep(ctx, s); err != nil {
			return err
		}
	}
	return u.deleteNamespace(ctx)
}

// deleteAPIService deletes the APIService if it references this installation, even if its
// Service no longer exists.
func (u *uninstaller) deleteAPIService(ctx context.Context) error {
	what := "APIService " + installation.APIServiceName
	service, err := u.read(ctx, kind("apiregistration.k8s.io", "APIService"), installation.APIServiceName)
	if service == nil || err != nil {
		return err
	}
	namespace, _, _ := unstructured.NestedString(service.Object, "spec", "service", "namespace")
	name, _, _ := unstructured.NestedString(service.Object, "spec", "service", "name")
	if ours := u.namespace + "/" + installation.APIServiceService; namespace+"/"+name != ours {
		u.leave("%s points to Service %s/%s, not to %s, so it is not part of this installation and stays", what, namespace, name, ours)
		return nil
	}
	return u.delete(ctx, service, what)
}

// deleteDefinitions deletes the definitions and waits until they are gone.
func (u *uninstaller) deleteDefinitions(ctx context.Context) error {
	var waiting []installation.Definition
	for _, d := range installation.AllDefinitions() {
		crd, err := u.read(ctx, installation.DefinitionKind(), d.Name)
		if err != nil {
			return err
		}
		if crd == nil {
			continue
		}
		what := "CustomResourceDefinition " + d.Name
		if name, _, err := unstructured.NestedString(crd.Object, "spec", "names", "kind"); err != nil || name != d.Kind {
			u.leave("%s defines %q, not %s, so it belongs to other software and stays", what, name, d.Kind)
			continue
		}
		if err := u.delete(ctx, crd, what); err != nil {
			return err
		}
		waiting = append(waiting, d)
	}
	if u.dryRun {
		return nil
	}
	waiting, err := u.waitDeleted(ctx, waiting)
	for _, d := range waiting {
		u.leave("CustomResourceDefinition %s is still being deleted%s", d.Name, u.holders(ctx, d))
	}
	return err
}

// waitDeleted waits until the definitions are gone, or the number of their objects does not fall
// during a step. It returns the definitions that still exist.
func (u *uninstaller) waitDeleted(ctx context.Context, definitions []installation.Definition) ([]installation.Definition, error) {
	for before := u.count(ctx, definitions); ; {
		finished, err := u.wait(ctx, u.patience(), func(ctx context.Context) (bool, error) {
			var err error
			definitions, err = u.stillThere(ctx, definitions)
			return len(definitions) == 0, err
		})
		if err != nil || finished {
			return nil, err
		}
		left := u.count(ctx, definitions)
		if left >= before {
			return definitions, nil
		}
		u.say("waiting for the deletion of %d objects of the CRDs", left)
		before = left
	}
}

// count returns the number of objects of the definitions, as far as they can be listed.
func (u *uninstaller) count(ctx context.Context, definitions []installation.Definition) (n int) {
	for _, d := range definitions {
		objects, _ := u.list(ctx, d.Resource.GroupVersion().WithKind(d.Kind))
		n += len(objects)
	}
	return n
}

// read returns a cluster-scoped object, or nil if it or its kind does not exist.
func (u *uninstaller) read(ctx context.Context, kind schema.GroupVersionKind, name string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	if err := u.kube.Get(ctx, client.ObjectKey{Name: name}, object); gone(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", kind.Kind, name, err)
	}
	return object, nil
}

// stillThere returns the definitions that still exist. It makes kube-apiserver retry failed
// deletions.
func (u *uninstaller) stillThere(ctx context.Context, definitions []installation.Definition) ([]installation.Definition, error) {
	var still []installation.Definition
	for _, d := range definitions {
		crd, err := u.read(ctx, installation.DefinitionKind(), d.Name)
		switch {
		case err != nil:
			return nil, err
		case crd == nil:
			continue
		case deletionFailed(crd):
			u.remind(ctx, crd)
		}
		still = append(still, d)
	}
	return still, nil
}

// deletionFailed reports whether kube-apiserver failed to delete the objects of a
// definition: it could not list or delete them (InstanceDeletionFailed), or some still
// existed after a minute (InstanceDeletionCheck).
func deletionFailed(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition, ok := c.(map[string]any)
		return ok && condition["type"] == "Terminating" && condition["status"] == "True" &&
			(condition["reason"] == "InstanceDeletionFailed" || condition["reason"] == "InstanceDeletionCheck")
	})
}

// remind makes kube-apiserver retry the deletion of a definition by changing an annotation.
// After a failure ("storage is (re)initializing", which is temporary), its finalizer
// controller retries immediately, usually with a cached object that lacks its own last
// write. It treats the resulting conflict as a change by another client and waits for the
// event of that change. But it ignores events that change only the condition, so it would
// wait forever.
func (u *uninstaller) remind(ctx context.Context, crd *unstructured.Unstructured) {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, annotationReminded, time.Now().UTC().Format(time.RFC3339Nano))
	// An error is ignored: definitions that still exist in the end are reported.
	_ = u.kube.Patch(ctx, crd, client.RawPatch(types.MergePatchType, patch))
}

// holders returns why a definition still exists: objects with finalizers, of which it names a few,
// or else the number of objects. It returns an empty string if they cannot be listed.
func (u *uninstaller) holders(ctx context.Context, d installation.Definition) string {
	objects, err := u.list(ctx, d.Resource.GroupVersion().WithKind(d.Kind))
	if err != nil || len(objects) == 0 {
		return ""
	}
	held := slices.DeleteFunc(slices.Clone(objects), func(o metav1.PartialObjectMetadata) bool { return len(o.Finalizers) == 0 })
	if len(held) == 0 {
		return fmt.Sprintf(", because %d of its objects are left; kube-apiserver continues to delete them", len(objects))
	}
	var names []string
	for _, o := range held[:min(len(held), mostNamed)] {
		names = append(names, fmt.Sprintf("%s %s/%s (%s)", d.Kind, o.Namespace, o.Name, strings.Join(o.Finalizers, ", ")))
	}
	if more := len(held) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return ", because these objects have finalizers of other controllers: " + strings.Join(names, "; ")
}

func (u *uninstaller) sweep(ctx context.Context, s sweep) error {
	found, err := u.find(ctx, s)
	if err != nil {
		return err
	}
	for i := range found {
		if err := u.delete(ctx, &found[i], nameOf(&found[i])); err != nil {
			return err
		}
	}
	return nil
}

// find returns the objects that a sweep selects. It returns none if the kind does not exist.
func (u *uninstaller) find(ctx context.Context, s sweep) ([]metav1.PartialObjectMetadata, error) {
	mapping, err := u.kube.RESTMapper().RESTMapping(s.kind.GroupKind(), s.kind.Version)
	switch {
	case gone(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("asking kube-apiserver about %s: %w", s.kind.Kind, err)
	}
	var options []client.ListOption
	if !s.everywhere && mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		options = append(options, client.InNamespace(u.namespace))
	}
	if len(s.names) == 0 && s.prefix == "" {
		options = append(options, client.MatchingLabels{installation.LabelName: installation.Name})
	}
	found, err := u.list(ctx, s.kind, options...)
	if err != nil {
		return nil, fmt.Errorf("listing every %s of the installation: %w", s.kind.Kind, err)
	}
	return slices.DeleteFunc(found, func(item metav1.PartialObjectMetadata) bool {
		ours := item.Labels[installation.LabelName] == installation.Name || slices.Contains(s.names, item.Name)
		return !ours && (s.prefix == "" || !strings.HasPrefix(item.Name, s.prefix))
	}), nil
}
