package uninstall

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/installation"
)

// deleteNamespace deletes the namespace of the operator, if the manifests created it and it
// contains no other objects.
func (u *uninstaller) deleteNamespace(ctx context.Context) error {
	namespace := &corev1.Namespace{}
	what := "Namespace " + u.namespace
	if err := u.kube.Get(ctx, client.ObjectKey{Name: u.namespace}, namespace); gone(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("reading %s: %w", what, err)
	}
	if namespace.Labels[installation.LabelName] != installation.Name {
		u.say("%s stays: it does not have the label %s=%s, so it is not part of the installation", what, installation.LabelName, installation.Name)
		return nil
	}
	others, err := u.others(ctx)
	if err != nil {
		return err
	}
	if len(others) > 0 {
		u.leave("%s stays, because it contains objects of other software: %s", what, strings.Join(others, ", "))
		return nil
	}
	if err := u.delete(ctx, namespace, what); err != nil {
		return err
	}
	finished, err := u.wait(ctx, u.patience(), func(ctx context.Context) (bool, error) {
		err := u.kube.Get(ctx, client.ObjectKey{Name: u.namespace}, namespace)
		if gone(err) {
			return true, nil
		}
		return false, err
	})
	if err == nil && !finished {
		u.leave("%s is still being deleted after %s%s", what, u.step, whyNot(namespace))
	}
	return err
}

// mostNamed is the maximum number of objects in a list of names.
const mostNamed = 5

// others returns the objects in the operator's namespace that prevent its deletion.
func (u *uninstaller) others(ctx context.Context) ([]string, error) {
	var names []string
	if u.keepDefinitions {
		for _, o := range u.objects {
			if o.GetNamespace() == u.namespace {
				names = append(names, o.definition.Kind+" "+o.GetName())
			}
		}
	}
	for _, kind := range []schema.GroupVersionKind{
		kind("apps", "Deployment"), kind("apps", "StatefulSet"), kind("apps", "DaemonSet"), kind("apps", "ReplicaSet"),
		kind("batch", "Job"), kind("batch", "CronJob"),
		kind("", "PersistentVolumeClaim"), kind("", "Pod"), kind("", "Service"),
		kind("", "Secret"), kind("", "ConfigMap"),
	} {
		found, err := u.list(ctx, kind, client.InNamespace(u.namespace))
		if err != nil {
			return nil, fmt.Errorf("listing every %s in namespace %s: %w", kind.Kind, u.namespace, err)
		}
		for _, item := range found {
			if !u.regrettable(kind.Kind, item) {
				continue
			}
			if len(names) == mostNamed {
				return append(names, "and more"), nil
			}
			names = append(names, kind.Kind+" "+item.Name)
		}
	}
	return names, nil
}

// regrettable reports whether an object was created by a user: it is not part of the
// installation, not created by Kubernetes, and not about to be deleted with its owner.
func (u *uninstaller) regrettable(kind string, item metav1.PartialObjectMetadata) bool {
	switch {
	case item.DeletionTimestamp != nil, item.Labels[installation.LabelName] == installation.Name, u.goesWithOwner(&item):
		return false
	case kind == "ConfigMap":
		return item.Name != "kube-root-ca.crt"
	case kind == "Secret":
		return item.Name != installation.APIServiceSecret && item.Annotations["kubernetes.io/service-account.name"] == ""
	}
	return true
}

// goesWithOwner reports whether the object's owner decides whether the object is counted:
// the owner is a workload, which is checked itself, or a deleted custom resource of the
// operator. Other owners, such as those of the pods and volumes of a database operator, are
// not checked, so their objects are counted.
func (u *uninstaller) goesWithOwner(item metav1.Object) bool {
	owner := metav1.GetControllerOf(item)
	if owner == nil {
		return false
	}
	group, _, _ := strings.Cut(owner.APIVersion, "/")
	if group == "apps" || group == "batch" {
		return true
	}
	return !u.keep && u.owns(*owner)
}

// whyNot returns the reason in the status of a namespace that is not deleted.
func whyNot(namespace *corev1.Namespace) string {
	var reasons []string
	for _, condition := range namespace.Status.Conditions {
		if condition.Status == corev1.ConditionTrue {
			reasons = append(reasons, fmt.Sprintf("%s: %s", condition.Reason, condition.Message))
		}
	}
	if len(reasons) == 0 {
		return "; kubectl get namespace " + namespace.Name + " -o yaml says why"
	}
	return ": " + strings.Join(reasons, "; ")
}

// wayBack returns instructions, as commands, to manage the kept Coder deployments with an
// operator again.
func (u *uninstaller) wayBack() string {
	if u.keepDefinitions {
		return "The Coders keep running. To manage them again, install coder-k8s again. Their objects still exist, so there is nothing to apply."
	}
	return "The Coders keep running. To manage them again:\n" +
		"1. Install coder-k8s again.\n" +
		"2. Apply the manifests, which this command and its earlier runs wrote to standard output. The operator takes over the Deployments, " +
		"Services and other objects that have the annotation " + coderv1alpha1.AnnotationAdopt + ". No pod restarts:\n" +
		"  kubectl apply -f coders.yaml\n" +
		"3. Run each of the commands \"kubectl ... patch secret\" and \"kubectl ... annotate\" that this command and its earlier runs printed. " +
		"They make the applied objects the owners of their Secrets, and of their Roles and RoleBindings in other namespaces. " +
		"The operator does not take over a Secret by annotation, because it contains credentials.\n" +
		"The operator's accounts and tokens in Coder still exist."
}

// givingBack returns the command that makes the re-created custom resource the owner of a
// Secret. The command looks up its UID.
func (u *uninstaller) givingBack(secret *metav1.PartialObjectMetadata, owner object) (string, error) {
	const uid = "UID"
	owners := slices.DeleteFunc(slices.Clone(secret.OwnerReferences), func(r metav1.OwnerReference) bool { return r.UID == owner.GetUID() })
	owners = append(owners, metav1.OwnerReference{
		APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: uid,
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
	})
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": owners}})
	if err != nil {
		return "", fmt.Errorf("writing the command for Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	// The names of other owners may contain a quote, which would end the argument.
	text := strings.ReplaceAll(string(patch), "'", `\u0027`)
	lookup := `"'"` + lookUpUID(owner) + `"'"`
	return fmt.Sprintf("kubectl -n %s patch secret %s --type=merge -p '%s'",
		secret.Namespace, secret.Name, strings.Replace(text, `"`+uid+`"`, lookup, 1)), nil
}

// lookUpUID returns the shell expression for the UID of the re-created custom resource.
func lookUpUID(owner object) string {
	return fmt.Sprintf("$(kubectl -n %s get %s %s -o jsonpath='{.metadata.uid}')", owner.GetNamespace(), owner.definition.Name, owner.GetName())
}
