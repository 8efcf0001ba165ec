package author

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

const (
	// probeName is the name of the probe, which exists only in dry runs.
	probeName = "coder-k8s-policy-probe"
	// probeAuthor is the forged author of the probe. The mutating policy does not replace it, so that
	// the validating policy has to deny it.
	probeAuthor = "coder-k8s:policy-probe"
	// denial is the beginning of the message of the validating policy.
	denial = "the annotation " + coderv1alpha1.AnnotationRBACAuthor + " names the user"
	// maxAnswer is the maximum number of characters of an answer to a probe that an error quotes.
	maxAnswer = 500
)

// guarded returns nil if the policy protects the annotation in the namespace of obj now. It creates
// an object with a forged author in a dry run, and requires that the policy denies it. The users of
// the namespace must not be able to influence the answer, so only kind and namespace of the probe
// are those of obj. Any other answer is a RefusedError, also one that denies the probe: a quota or a
// webhook does not protect the annotation. The result is not cached, because the policy may be
// deleted at any time.
func (c Checker) guarded(ctx context.Context, obj client.Object) error {
	kind, err := c.Client.GroupVersionKindFor(obj)
	if err != nil {
		return fmt.Errorf("bug: %w", err)
	}
	if kind.Kind == "CoderBackupSchedule" {
		kind.Kind = "CoderBackup" // The operator creates no schedules, and the same rule of the policy is for both.
	}
	err = c.Client.Create(ctx, probe(kind, obj.GetNamespace()), client.DryRunAll)
	var answer apierrors.APIStatus
	switch {
	case err == nil:
		return &RefusedError{Unknown: true, Message: fmt.Sprintf(
			"anyone may write the annotation %s in namespace %q, because the admission policy %s is not in force there, so nothing is granted; %s",
			coderv1alpha1.AnnotationRBACAuthor, obj.GetNamespace(), PolicyName, applyPolicy)}
	case !errors.As(err, &answer), transient(answer.Status().Code):
		return fmt.Errorf("testing the admission policy %s: %w", PolicyName, err)
	case denied(kind, answer.Status()):
		return nil
	}
	return &RefusedError{Unknown: true, Message: fmt.Sprintf(
		"it is not known whether the admission policy %s protects the annotation %s in namespace %q, so nothing is granted: the dry run "+
			"that creates %s %q with a forged author must be denied by that policy, but failed with: %.*s; allow the operator to create it, and %s",
		PolicyName, coderv1alpha1.AnnotationRBACAuthor, obj.GetNamespace(), kind.Kind, probeName,
		maxAnswer, strings.Join(strings.Fields(err.Error()), " "), applyPolicy)}
}

// probe returns an object that is valid but for its author.
func probe(kind schema.GroupVersionKind, namespace string) *unstructured.Unstructured {
	spec := map[string]any{}
	if kind.Kind != "CoderControlPlane" {
		spec["controlPlaneRef"] = map[string]any{"name": probeName}
	}
	if kind.Kind == "CoderBackup" {
		spec["destination"] = map[string]any{"persistentVolumeClaim": map[string]any{"claimName": probeName}}
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(namespace)
	o.SetName(probeName)
	o.SetAnnotations(map[string]string{coderv1alpha1.AnnotationRBACAuthor: probeAuthor})
	return o
}

// transient reports whether a later attempt may have another result although nothing was changed.
func transient(code int32) bool {
	return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests
}

// denied reports whether the validating policy denied the probe because of its author. The message is
// compared from its beginning: kube-apiserver writes words of its own before those of a quota or a
// webhook. A webhook chooses all other fields of the status.
func denied(kind schema.GroupVersionKind, status metav1.Status) bool {
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	return status.Reason == metav1.StatusReasonForbidden && strings.HasPrefix(status.Message, fmt.Sprintf(
		"%[1]s %[2]q is forbidden: ValidatingAdmissionPolicy '%[3]s' with binding '%[3]s' denied request: %[4]s",
		resource.GroupResource(), probeName, PolicyName, denial))
}
