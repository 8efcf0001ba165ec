package upgrade

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

func TestBackupDestination(t *testing.T) {
	const recipient = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"
	claims, backups := schema.GroupResource{Resource: "persistentvolumeclaims"}, schema.GroupResource{Group: "postgresql.cnpg.io", Resource: "backups"}
	claim := coderv1alpha1.BackupDestination{PersistentVolumeClaim: &coderv1alpha1.BackupVolume{ClaimName: "backups"}}
	native := coderv1alpha1.BackupDestination{CloudNativePG: &coderv1alpha1.CloudNativePGBackup{ClusterName: "db"}}
	bucket := func(recipients ...string) coderv1alpha1.BackupDestination {
		s3 := &coderv1alpha1.BackupS3{AgeRecipients: recipients}
		s3.SecretRef.Name = "s3"
		return coderv1alpha1.BackupDestination{S3: s3}
	}
	withModes := func(modes ...corev1.PersistentVolumeAccessMode) func(client.Object) {
		return func(o client.Object) { o.(*corev1.PersistentVolumeClaim).Spec.AccessModes = modes }
	}
	withKeys := func(keys ...string) func(client.Object) {
		return func(o client.Object) {
			data := map[string][]byte{"accessKeyID": []byte("\n")}
			for _, key := range keys {
				data[key] = []byte("geheim")
			}
			o.(*corev1.Secret).Data = data
		}
	}
	both := withKeys("accessKeyID", "secretAccessKey")
	for name, c := range map[string]struct {
		to     coderv1alpha1.BackupDestination
		read   func(client.Object)
		err    error
		result Result
		says   string
	}{
		"a claim": {to: claim, read: withModes(corev1.ReadWriteOnce), result: Passed, says: `PersistentVolumeClaim "backups" exists`},
		"a claim that gets its volume with the first pod": {to: claim, result: Passed, read: func(o client.Object) {
			o.(*corev1.PersistentVolumeClaim).Status.Phase = corev1.ClaimPending
		}},
		"a missing claim": {to: claim, err: apierrors.NewNotFound(claims, "backups"), result: Failed,
			says: `PersistentVolumeClaim "backups" does not exist; create it, or correct spec.template.destination of CoderBackupSchedule "nightly"`},
		"a claim that ends": {to: claim, result: Failed, says: "is being deleted", read: func(o client.Object) {
			o.SetDeletionTimestamp(&metav1.Time{Time: metav1.Now().Time})
		}},
		"a claim without its volume": {to: claim, result: Failed, says: "has lost its volume", read: func(o client.Object) {
			o.(*corev1.PersistentVolumeClaim).Status.Phase = corev1.ClaimLost
		}},
		"a claim to read":              {to: claim, read: withModes(corev1.ReadOnlyMany), result: Warning, says: "its only access mode is ReadOnlyMany"},
		"a claim to read and to write": {to: claim, read: withModes(corev1.ReadOnlyMany, corev1.ReadWriteMany), result: Passed},
		"a claim that cannot be read":  {to: claim, err: apierrors.NewForbidden(claims, "backups", nil), result: Warning, says: "could not be checked"},
		"a bucket":                     {to: bucket(), read: both, result: Passed, says: "the Job of the backup is the first to use them"},
		"a bucket, encrypted":          {to: bucket(recipient), read: both, result: Passed},
		"a recipient with a typo":      {to: bucket(strings.Replace(recipient, "ql3z", "ql3y", 1)), read: both, result: Failed, says: "ageRecipients are not public keys of age"},
		"a missing Secret":             {to: bucket(), err: apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "s3"), result: Failed, says: `Secret "s3", which has the access keys of the bucket, does not exist; create it`},
		"a Secret without a value":     {to: bucket(), read: withKeys("secretAccessKey"), result: Failed, says: `has no value for the key "accessKeyID"`},
		"a Secret without a key":       {to: bucket(), read: withKeys("accessKeyID"), result: Failed, says: `has no value for the key "secretAccessKey"`},
		"a Secret that cannot be read": {to: bucket(), err: errors.New("timeout"), result: Warning, says: "timeout"},
		"CloudNativePG":                {to: native, result: Passed, says: `for the Cluster "db" can be created`},
		"no such kind":                 {to: native, err: &meta.NoKindMatchError{GroupKind: CloudNativePGBackup.GroupKind()}, result: Failed, says: "install CloudNativePG"},
		"no such resource":             {to: native, err: apierrors.NewNotFound(backups, ""), result: Failed, says: "install CloudNativePG"},
		"no right to create":           {to: native, err: apierrors.NewForbidden(backups, "", nil), result: Failed, says: "set the value backups.cloudNativePG of the Helm chart to true"},
		"a Backup that is invalid":     {to: native, err: apierrors.NewInvalid(CloudNativePGBackup.GroupKind(), "", nil), result: Failed, says: "CloudNativePG rejects the Backup"},
		"a webhook that does not run":  {to: native, err: apierrors.NewInternalError(errors.New("failed calling webhook")), result: Failed, says: "does not reach CloudNativePG"},
		"a webhook without dry runs":   {to: native, err: apierrors.NewBadRequest("does not support dry run"), result: Warning, says: "does not support dry run"},
		"a destination of the future":  {result: Warning, says: "is not known to this version"},
	} {
		t.Run(name, func(t *testing.T) {
			schedule := &coderv1alpha1.CoderBackupSchedule{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "nightly"}}
			schedule.Spec.Template.Destination = c.to
			obj := destinationObject(schedule)
			if _, backup := obj.(*unstructured.Unstructured); obj != nil && (obj.GetNamespace() != "coder" || (obj.GetName() == "") != backup || backup && obj.GetLabels()[coderv1alpha1.LabelManagedBy] == "") {
				t.Errorf("the object is %+v", obj)
			}
			if c.read != nil {
				c.read(obj)
			}
			check := backupDestination(schedule, obj, c.err)
			if check.Name != "BackupDestination" || check.Result != c.result || !strings.Contains(check.Message, c.says) || strings.Contains(check.Message, "geheim") {
				t.Errorf("the check is %+v, want %s with %q", check, c.result, c.says)
			}
		})
	}
}
