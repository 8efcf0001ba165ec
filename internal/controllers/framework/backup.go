package framework

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/kube/author"
	"github.com/coder-k8s/coder-k8s/internal/upgrade"
)

// MayBackUp returns a Stop unless the author of a CoderBackup or CoderBackupSchedule may create the Backups of CloudNativePG
// that the operator creates for it.
func (t *Toolkit) MayBackUp(ctx context.Context, obj client.Object, template *coderv1alpha1.BackupTemplate) error {
	if template.Destination.CloudNativePG == nil {
		return nil
	}
	create := rbacv1.PolicyRule{APIGroups: []string{upgrade.CloudNativePGBackup.Group}, Resources: []string{"backups"}, Verbs: []string{"create"}}
	err := t.CheckAuthor(ctx, obj, author.Grant{Field: "spec", Namespace: obj.GetNamespace(), Rules: []rbacv1.PolicyRule{create}})
	refused, ok := errors.AsType[*author.RefusedError](err)
	if !ok {
		return err
	}
	reason := coderv1alpha1.ReasonAuthorForbidden
	if refused.Unknown {
		reason = coderv1alpha1.ReasonAuthorUnknown
	}
	return ensure.Waits(reason, RetryInterval, "no Backup of CloudNativePG is created for %q: %s", obj.GetName(), refused.Message)
}

// CreateBackup creates a CoderBackup from the template of a schedule. Its author is the operator, so the author of the schedule
// is checked.
func (t *Toolkit) CreateBackup(ctx context.Context, schedule *coderv1alpha1.CoderBackupSchedule, backup *coderv1alpha1.CoderBackup) error {
	backup.Namespace = schedule.Namespace
	backup.Spec = coderv1alpha1.CoderBackupSpec{ControlPlaneRef: schedule.Spec.ControlPlaneRef, BackupTemplate: *schedule.Spec.Template.DeepCopy()}
	if err := t.MayBackUp(ctx, schedule, &backup.Spec.BackupTemplate); err != nil {
		return err
	}
	if backup.Spec.Destination.CloudNativePG != nil {
		// Before Kubernetes 1.36 the author writes the annotation.
		self := &authenticationv1.SelfSubjectReview{}
		if err := t.Uncached.Create(ctx, self); err != nil {
			return fmt.Errorf("asking for the name of the operator: %w", err)
		}
		user := self.Status.UserInfo
		backup.Annotations = map[string]string{coderv1alpha1.AnnotationRBACAuthor: strings.Join(append([]string{user.Username}, user.Groups...), "\n")}
	}
	return t.Client.Create(ctx, backup)
}
