package supportbundle

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/pager"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/installation"
)

// pageSize limits how many objects are in memory at once: a CustomResourceDefinition may
// have a mebibyte.
const pageSize = 50

func in(group string, names ...string) []schema.GroupVersionResource {
	var resources []schema.GroupVersionResource
	for _, name := range names {
		resources = append(resources, schema.GroupVersionResource{Group: group, Version: "v1", Resource: name})
	}
	return resources
}

// children returns the resources whose objects may be owned by the operator's custom
// resources, and ConfigMaps. Owners come before the objects that they own: a pod owns the
// PersistentVolumeClaims of its ephemeral volumes.
func children() []schema.GroupVersionResource {
	all := slices.Concat(in("apps", "deployments", "replicasets"), in("batch", "jobs"), in("", "pods"))
	for _, resource := range installation.ChildResources() {
		if r := resource.WithVersion("v1"); !slices.Contains(all, r) {
			all = append(all, r)
		}
	}
	return append(all, in("", "configmaps")...)
}

// each calls take for all objects of a resource, page by page. If the cluster does not
// serve the resource, it returns no error.
func (c *collector) each(
	ctx context.Context, resource schema.GroupVersionResource, namespace, selector string, take func(*unstructured.Unstructured),
) error {
	list := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return c.dynamic.Resource(resource).Namespace(namespace).List(ctx, options)
	})
	list.PageSize = pageSize
	err := list.EachListItem(ctx, metav1.ListOptions{LabelSelector: selector}, func(object runtime.Object) error {
		item := object.(*unstructured.Unstructured)
		c.learnContent(item)
		take(item)
		return nil
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// keep adds an object to a folder of the archive.
func (c *collector) keep(folder, resource string, object *unstructured.Unstructured) {
	c.addYAML(path.Join(folder, resource, object.GetName()+".yaml"), cleaner{c.redactor}.object(object))
}

// installation collects the objects of the operator.
func (c *collector) installation(ctx context.Context, s *scope) {
	const rbac = "rbac.authorization.k8s.io"
	for _, resource := range slices.Concat(
		in("apps", "deployments", "replicasets"),
		in("", "pods", "services", "serviceaccounts", "configmaps", "secrets"),
		in("coordination.k8s.io", "leases"),
		in("discovery.k8s.io", "endpointslices"),
		in("policy", "poddisruptionbudgets"),
		in("networking.k8s.io", "networkpolicies"),
		in(rbac, "roles", "rolebindings"),
	) {
		selector := installation.LabelName + "=" + installation.Name
		if slices.Contains([]string{"leases", "configmaps", "secrets"}, resource.Resource) {
			// They do not all have the label, so all of those in the operator's namespace are collected.
			selector = ""
		}
		err := c.each(ctx, resource, c.operatorNamespace, selector, func(object *unstructured.Unstructured) {
			c.keep("installation", resource.Resource, object)
			if resource.Resource == "pods" {
				c.addPod(s, object, true)
			}
		})
		if err != nil {
			c.leaveObjects(resource.Resource, c.operatorNamespace, err)
		}
	}
	for _, resource := range slices.Concat(
		in("apiextensions.k8s.io", "customresourcedefinitions"),
		in("apiregistration.k8s.io", "apiservices"),
		in(rbac, "clusterroles", "clusterrolebindings"),
		in("admissionregistration.k8s.io", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
			"validatingadmissionpolicies", "validatingadmissionpolicybindings"),
	) {
		err := c.each(ctx, resource, "", "", func(object *unstructured.Unstructured) {
			group, _, _ := unstructured.NestedString(object.Object, "spec", "group")
			if object.GetLabels()[installation.LabelName] == installation.Name || strings.HasPrefix(object.GetName(), installation.Name) ||
				group == "coder.com" || strings.HasSuffix(group, ".coder.com") {
				c.keep("installation", resource.Resource, object)
			}
		})
		if err != nil {
			c.leave("the "+resource.Resource+" of the installation", err)
		}
	}
	c.describe("installation/", "the objects of the operator in namespace "+c.operatorNamespace+", the CRDs (without schemas), the APIService, RBAC and policies")
}

// addPod adds a pod whose logs are collected.
func (c *collector) addPod(s *scope, object *unstructured.Unstructured, operator bool) {
	pod := &corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, pod); err != nil {
		c.leave("the logs of pod "+object.GetName(), err)
		return
	}
	s.pods = append(s.pods, podLogs{pod: pod, operator: operator})
}

// leaveObjects lists objects that are not in the archive. If Secrets cannot be read, it
// also records that their values could not be redacted elsewhere.
func (c *collector) leaveObjects(resource, namespace string, err error) {
	c.leave(fmt.Sprintf("the %s of namespace %s", resource, namespace), err)
	if resource == "secrets" {
		c.unlearned = append(c.unlearned, namespace)
	}
}

// kinds collects the operator's custom resources and records their namespaces.
func (c *collector) kinds(ctx context.Context, s *scope) {
	for _, definition := range installation.Definitions() {
		plural := definition.Resource.Resource
		err := c.each(ctx, definition.Resource, c.namespace, "", func(object *unstructured.Unstructured) {
			s.owners[string(object.GetUID())] = true
			if !slices.Contains(s.namespaces, object.GetNamespace()) {
				s.namespaces = append(s.namespaces, object.GetNamespace())
			}
			c.keep(folderOf(object.GetNamespace()), plural, object)
		})
		if err != nil {
			c.leave("the "+plural, err)
		}
	}
	if c.namespace != "" && !slices.Contains(s.namespaces, c.namespace) {
		s.namespaces = append(s.namespaces, c.namespace)
	}
	slices.Sort(s.namespaces)
	c.describe("namespaces/", "per namespace the control planes, provisioners and proxies with what they own, events, and workspaces and templates without values")
}

func folderOf(namespace string) string { return path.Join("namespaces", namespace) }

// namespaceObjects collects the objects that the custom resources own, and the keys of all
// Secrets and ConfigMaps in the namespace.
func (c *collector) namespaceObjects(ctx context.Context, s *scope, namespace string) {
	for _, resource := range children() {
		err := c.each(ctx, resource, namespace, "", func(object *unstructured.Unstructured) {
			owned := object.GetLabels()[coderv1alpha1.LabelManagedBy] == coderv1alpha1.ManagedBy ||
				slices.ContainsFunc(object.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return s.owners[string(ref.UID)] })
			if !owned && resource.Resource != "secrets" && resource.Resource != "configmaps" {
				return
			}
			s.owners[string(object.GetUID())] = true
			c.keep(folderOf(namespace), resource.Resource, object)
			if resource.Resource == "pods" {
				c.addPod(s, object, false)
			}
		})
		if err != nil {
			c.leaveObjects(resource.Resource, namespace, err)
		}
	}
}
