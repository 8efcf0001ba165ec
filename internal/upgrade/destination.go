package upgrade

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// CloudNativePGBackup is the kind of a Backup of CloudNativePG.
var CloudNativePGBackup = schema.GroupVersionKind{Group: "postgresql.cnpg.io", Version: "v1", Kind: "Backup"}

// NewCloudNativePGBackup returns a Backup of CloudNativePG without a name.
func NewCloudNativePGBackup(namespace string, wanted *coderv1alpha1.CloudNativePGBackup) *unstructured.Unstructured {
	spec := map[string]any{
		"cluster": map[string]any{"name": wanted.ClusterName}, "method": cmp.Or(wanted.Method, "barmanObjectStore"),
	}
	if plugin := wanted.PluginConfiguration; plugin != nil {
		parameters := map[string]any{}
		for name, value := range plugin.Parameters {
			parameters[name] = value
		}
		spec["pluginConfiguration"] = map[string]any{"name": plugin.Name, "parameters": parameters}
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(CloudNativePGBackup)
	o.SetNamespace(namespace)
	// Also in the dry run, because an admission policy may ask for labels.
	o.SetLabels(map[string]string{coderv1alpha1.LabelManagedBy: coderv1alpha1.ManagedBy})
	return o
}

// TryDestination checks whether a backup can be stored where a schedule says. It reads the PersistentVolumeClaim or the Secret, or
// creates a Backup of CloudNativePG in a dry run. err is the error of that request; the check takes it into account.
func TryDestination(ctx context.Context, c client.Client, schedule *coderv1alpha1.CoderBackupSchedule) (check Check, err error) {
	obj := destinationObject(schedule)
	switch obj.(type) {
	case nil:
	case *unstructured.Unstructured:
		err = c.Create(ctx, obj, client.DryRunAll)
	default:
		err = c.Get(ctx, client.ObjectKeyFromObject(obj), obj)
	}
	return backupDestination(schedule, obj, err), err
}

// destinationObject returns what TryDestination reads or creates, or nil if the destination is not known.
func destinationObject(schedule *coderv1alpha1.CoderBackupSchedule) client.Object {
	switch to := schedule.Spec.Template.Destination; {
	case to.PersistentVolumeClaim != nil:
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: schedule.Namespace, Name: to.PersistentVolumeClaim.ClaimName}}
	case to.S3 != nil:
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: schedule.Namespace, Name: to.S3.SecretRef.Name}}
	case to.CloudNativePG != nil:
		o := NewCloudNativePGBackup(schedule.Namespace, to.CloudNativePG)
		o.SetGenerateName(schedule.Name + "-check-")
		return o
	}
	return nil
}

// backupDestination returns the check for an object as the cluster has it now, and the error of the request. It fails only if a
// backup cannot succeed.
func backupDestination(schedule *coderv1alpha1.CoderBackupSchedule, obj client.Object, err error) Check {
	works, problem, result := "", "", Passed
	switch typed := obj.(type) {
	case *corev1.PersistentVolumeClaim:
		is := fmt.Sprintf("PersistentVolumeClaim %q", typed.Name)
		works = is + " exists"
		// A claim that is not bound may get its volume with the pod of the backup.
		switch {
		case apierrors.IsNotFound(err):
			problem = is + " does not exist; create it"
		case err != nil:
		case !typed.DeletionTimestamp.IsZero():
			problem = is + " is being deleted; create it again"
		case typed.Status.Phase == corev1.ClaimLost:
			problem = is + " has lost its volume; replace it"
		}
		// Kubernetes does not enforce access modes when a volume is mounted, so a backup may succeed.
		if slices.Equal(typed.Spec.AccessModes, []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany}) {
			works, result = works+"; its only access mode is ReadOnlyMany, so its volume may not be writable", Warning
		}
	case *corev1.Secret:
		works = fmt.Sprintf("Secret %q has the access keys of the bucket; the Job of the backup is the first to use them", typed.Name)
		problem = bucketProblem(schedule.Spec.Template.Destination.S3, typed, err)
	case *unstructured.Unstructured:
		works = fmt.Sprintf("a Backup of CloudNativePG for the Cluster %q can be created; whether CloudNativePG can make the backup is not known before",
			schedule.Spec.Template.Destination.CloudNativePG.ClusterName)
		switch {
		case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
			problem = "the cluster does not serve backups.postgresql.cnpg.io in version v1; install CloudNativePG"
		case apierrors.IsForbidden(err):
			problem = fmt.Sprintf("the operator may not create backups.postgresql.cnpg.io in namespace %q (%v); set the value backups.cloudNativePG of the Helm chart to true",
				schedule.Namespace, err)
		case apierrors.IsInvalid(err):
			problem = fmt.Sprintf("CloudNativePG rejects the Backup (%v); correct its Cluster", err)
		case apierrors.IsInternalError(err):
			problem = fmt.Sprintf("kube-apiserver does not reach CloudNativePG (%v); see its pods", err)
		}
	}
	switch {
	case problem != "":
		return Check{CheckDestination, Failed, fmt.Sprintf("%s, or correct spec.template.destination of CoderBackupSchedule %q", problem, schedule.Name)}
	case err != nil:
		return Check{CheckDestination, Warning, fmt.Sprintf("the destination of CoderBackupSchedule %q could not be checked: %v", schedule.Name, err)}
	case works == "":
		return Check{CheckDestination, Warning, fmt.Sprintf("the destination of CoderBackupSchedule %q is not known to this version", schedule.Name)}
	}
	return Check{CheckDestination, result, works}
}

// bucketProblem returns why no backup can be stored in a bucket, and what to do, or an empty string. The recipients are parsed
// like in the Job of the backup.
func bucketProblem(s3 *coderv1alpha1.BackupS3, secret *corev1.Secret, err error) string {
	if len(s3.AgeRecipients) > 0 {
		if _, err := age.ParseRecipients(strings.NewReader(strings.Join(s3.AgeRecipients, "\n"))); err != nil {
			return fmt.Sprintf("ageRecipients are not public keys of age (%v); correct them", err)
		}
	}
	if apierrors.IsNotFound(err) {
		return fmt.Sprintf("Secret %q, which has the access keys of the bucket, does not exist; create it", secret.Name)
	}
	for _, key := range []string{"accessKeyID", "secretAccessKey"} {
		if err == nil && len(bytes.TrimSpace(secret.Data[key])) == 0 {
			return fmt.Sprintf("Secret %q, which has the access keys of the bucket, has no value for the key %q; add it", secret.Name, key)
		}
	}
	return ""
}
