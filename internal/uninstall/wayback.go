package uninstall

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// wayBack returns instructions, as commands, to manage the kept Coder deployments with an
// operator again.
func (u *uninstaller) wayBack() string {
	if u.keepDefinitions {
		return "The Coders go on running. To take them back, install coder-k8s again: their objects are still there, and nothing has to be applied."
	}
	lines := []string{
		"The Coders go on running. To take them back, with what was written to standard output as coders.yaml:",
		"1. Install coder-k8s again.",
		"2. Apply the objects. What belonged to them has the annotation " + coderv1alpha1.AnnotationAdopt + ", by which the operator knows it:",
		"  kubectl apply -f coders.yaml",
	}
	if len(u.secrets) > 0 {
		lines = append(lines, "3. Give the Secrets their owners. They hold credentials, so the operator takes none because of an annotation:")
		for _, command := range u.secrets {
			lines = append(lines, "  "+command)
		}
	}
	return strings.Join(append(lines, "The operator's account and tokens in Coder are still there."), "\n")
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
	lookup := fmt.Sprintf("\"'\"$(kubectl -n %s get %s %s -o jsonpath='{.metadata.uid}')\"'\"",
		owner.GetNamespace(), owner.definition.Name, owner.GetName())
	return fmt.Sprintf("kubectl -n %s patch secret %s --type=merge -p '%s'",
		secret.Namespace, secret.Name, strings.Replace(string(patch), `"`+uid+`"`, lookup, 1)), nil
}
