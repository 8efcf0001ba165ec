package backup

import (
	"context"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controllertest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/kube/author"
	"github.com/coder-k8s/coder-k8s/internal/upgrade"
)

// cloudNativePG is what the cluster answers about Backups of CloudNativePG and their authors.
type cloudNativePG struct {
	// refusal is the error of each request about a Backup, or nil.
	refusal error
	// stranger is true if the author may not create Backups. asked are the objects whose author was checked.
	stranger bool
	asked    []string
}

func (c *cloudNativePG) checkAuthor(_ context.Context, obj client.Object, grant author.Grant) error {
	c.asked = append(c.asked, obj.GetName())
	if rule := grant.Rules[0]; grant.Namespace != "coder" || len(grant.Rules) != 1 || rule.APIGroups[0] != "postgresql.cnpg.io" || rule.Resources[0] != "backups" || rule.Verbs[0] != "create" {
		return &author.RefusedError{Message: "the wrong right was checked"}
	}
	if c.stranger {
		return &author.RefusedError{Message: `user "tenant" does not hold create backups.postgresql.cnpg.io`}
	}
	return nil
}

func (c *cloudNativePG) around(cluster client.WithWatch, now func() time.Time) client.Client {
	return interceptor.NewClient(cluster, interceptor.Funcs{
		Create: func(ctx context.Context, cluster client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			obj.SetCreationTimestamp(metav1.NewTime(now()))
			return cluster.Create(ctx, obj, opts...)
		},
		Get: func(ctx context.Context, cluster client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if c.refusal != nil {
				return c.refusal
			}
			return cluster.Get(ctx, key, obj, opts...)
		},
	})
}

func withCloudNativePG(t *testing.T, change func(*coderv1alpha1.CoderBackupSpec)) *fixture {
	t.Helper()
	f := newFixture(t, controlPlane())
	f.Edit(func(b *coderv1alpha1.CoderBackup) {
		b.CreationTimestamp = metav1.NewTime(f.Clock.Now())
		b.Spec.Destination = coderv1alpha1.BackupDestination{CloudNativePG: &coderv1alpha1.CloudNativePGBackup{ClusterName: "db"}}
		if change != nil {
			change(&b.Spec)
		}
	})
	return f
}

func cloudNativePGBackup(name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(upgrade.CloudNativePGBackup)
	o.SetNamespace("coder")
	o.SetName(name)
	return o
}

// reports writes the status of the Backup like CloudNativePG.
func (f *fixture) reports(status map[string]any) {
	f.T.Helper()
	o := cloudNativePGBackup("first")
	f.Get("first", o)
	o.Object["status"] = status
	f.Update(o)
	f.Settle()
}

func TestBackupWithCloudNativePG(t *testing.T) {
	f := withCloudNativePG(t, func(spec *coderv1alpha1.CoderBackupSpec) {
		spec.Destination.CloudNativePG.Method = "plugin"
		spec.Destination.CloudNativePG.PluginConfiguration = &coderv1alpha1.CloudNativePGPlugin{
			Name: "barman-cloud.cloudnative-pg.io", Parameters: map[string]string{"barmanObjectName": "store"},
		}
	})
	f.Settle()
	f.phase(coderv1alpha1.BackupRunning)
	o := cloudNativePGBackup("first")
	f.Get("first", o)
	uid := o.GetUID()
	for path, want := range map[string]string{
		"cluster.name": "db", "method": "plugin", "pluginConfiguration.name": "barman-cloud.cloudnative-pg.io", "pluginConfiguration.parameters.barmanObjectName": "store",
	} {
		if got, _, _ := unstructured.NestedString(o.Object, append([]string{"spec"}, strings.Split(path, ".")...)...); got != want {
			t.Errorf("spec.%s is %q, want %q", path, got, want)
		}
	}
	if f.jobs() != 0 {
		t.Error("there is a Job too")
	}

	// A restart in the middle, and a control plane of another version, change nothing.
	f.restart()
	cp := &coderv1alpha1.CoderControlPlane{}
	f.Get("dev", cp)
	cp.Status.Version = "v2.37.0"
	f.UpdateStatus(cp)
	f.reports(map[string]any{"phase": "walArchivingFailing", "error": "postgres://coder:geheim@db/coder"})
	if c := f.MustHave("Complete", "False", coderv1alpha1.ReasonBackupRunning); !strings.Contains(c.Message, "walArchivingFailing") {
		t.Errorf("the message is %q", c.Message)
	}
	f.MustNotExpose([]string{"geheim"})
	f.MustBe("while CloudNativePG works", controllertest.KstatusInProgress)
	f.Get("first", o)
	if o.GetUID() != uid {
		t.Error("a new leader created a second Backup")
	}

	f.reports(map[string]any{"phase": "completed", "startedAt": "2026-11-21T12:00:05Z", "stoppedAt": "2026-11-21T12:03:05Z", "majorVersion": int64(17)})
	f.phase(coderv1alpha1.BackupCompleted)
	f.MustHave("Ready", "True", coderv1alpha1.ReasonReady)
	f.MustHave("SelfContained", "Unknown", coderv1alpha1.ReasonNotChecked)
	f.MustBe("when it is complete", controllertest.KstatusCurrent)
	got := f.Object().Status
	if got.CloudNativePGBackupName != "first" || got.Directory != "" || got.SizeBytes != 0 || got.SchemaVersion != 0 || got.PostgresVersion != "17" ||
		got.CoderVersion != "v2.36.1+abc" || got.CompletedAt.Sub(got.StartedAt.Time) != 3*time.Minute || strings.Join(got.SecretNames, " ") != "keys license" {
		t.Errorf("the status is %+v", got)
	}

	f.Delete()
	f.Reconcile()
	if !f.Gone() || f.Has("first", cloudNativePGBackup("first")) || f.Events.Count("Warning") != 0 {
		t.Errorf("the CoderBackup or its Backup still exists: %q", f.Events.All())
	}
}

func TestFailuresOfCloudNativePG(t *testing.T) {
	for _, test := range []struct {
		name   string
		status map[string]any
		after  time.Duration
		reason string
		says   string
	}{
		{"it fails", map[string]any{"phase": "failed", "error": "no credentials"}, 0, coderv1alpha1.ReasonBackupFailed, "no credentials"},
		{"it does not understand", map[string]any{"phase": "invalid backup definition"}, 0, coderv1alpha1.ReasonBackupFailed, "invalid backup definition"},
		{"it does not begin", map[string]any{}, time.Hour, coderv1alpha1.ReasonDeadlineExceeded, "raise activeDeadlineSeconds"},
		{"it does not end", map[string]any{"phase": "running"}, time.Hour, coderv1alpha1.ReasonDeadlineExceeded, `"running"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := withCloudNativePG(t, nil)
			f.Settle()
			f.Forward(test.after)
			f.reports(test.status)
			f.phase(coderv1alpha1.BackupFailed)
			if c := f.MustHave("Complete", "False", test.reason); !strings.Contains(c.Message, test.says) {
				t.Errorf("the message is %q, without %q", c.Message, test.says)
			}
			f.MustBe("when it has failed", controllertest.KstatusFailed)
		})
	}
}

func TestCloudNativePGCannotBeUsed(t *testing.T) {
	backups := schema.GroupResource{Group: "postgresql.cnpg.io", Resource: "backups"}
	for _, test := range []struct {
		name         string
		cluster      cloudNativePG
		reason, says string
	}{
		{"no CloudNativePG", cloudNativePG{refusal: &meta.NoKindMatchError{GroupKind: upgrade.CloudNativePGBackup.GroupKind()}}, coderv1alpha1.ReasonCloudNativePGUnavailable, "install CloudNativePG"},
		{"no permission", cloudNativePG{refusal: apierrors.NewForbidden(backups, "first", nil)}, coderv1alpha1.ReasonCloudNativePGForbidden, "backups.cloudNativePG"},
		{"a stranger", cloudNativePG{stranger: true}, coderv1alpha1.ReasonAuthorForbidden, "does not hold create backups"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := withCloudNativePG(t, nil)
			f.cloudNativePG = test.cluster
			after := f.Settle().RequeueAfter
			f.phase(coderv1alpha1.BackupPending)
			if c := f.MustHave("Complete", "False", test.reason); !strings.Contains(c.Message, test.says) {
				t.Errorf("the message is %q, without %q", c.Message, test.says)
			}
			if f.Has("first", cloudNativePGBackup("first")) || after != framework.RetryInterval {
				t.Errorf("there is a Backup, or the next pass is after %s", after)
			}
			f.Forward(time.Hour)
			f.Settle()
			f.phase(coderv1alpha1.BackupFailed)
			if c := f.MustHave("Complete", "False", coderv1alpha1.ReasonDeadlineExceeded); !strings.Contains(c.Message, test.says) {
				t.Errorf("the message is %q, without %q", c.Message, test.says)
			}
			f.Delete()
			f.Reconcile()
			if !f.Gone() {
				t.Errorf("the CoderBackup is not gone: %+v", f.Object().Status.Conditions)
			}
		})
	}
}

func TestABackupOfAnotherOwner(t *testing.T) {
	for name, forged := range map[string]bool{"without the annotation": false, "older, with a forged annotation": true} {
		t.Run(name, func(t *testing.T) {
			f := withCloudNativePG(t, nil)
			theirs := cloudNativePGBackup("first")
			theirs.SetCreationTimestamp(metav1.NewTime(f.Clock.Now()))
			if forged {
				theirs.SetCreationTimestamp(metav1.NewTime(f.Clock.Now().Add(-time.Hour)))
				theirs.SetAnnotations(map[string]string{coderv1alpha1.AnnotationBackupUID: string(f.Object().UID)})
			}
			f.Create(theirs)
			f.Settle()
			f.phase(coderv1alpha1.BackupPending)
			f.MustHave("Complete", "False", coderv1alpha1.ReasonNotOwned)
			f.Delete()
			f.Reconcile()
			if !f.Gone() || !f.Has("first", cloudNativePGBackup("first")) {
				t.Error("the CoderBackup is not gone, or the Backup of another owner is")
			}
		})
	}
}

func TestDeletionOfABackupOfCloudNativePG(t *testing.T) {
	f := withCloudNativePG(t, func(spec *coderv1alpha1.CoderBackupSpec) { spec.DeletionPolicy = coderv1alpha1.DeletionPolicyRetain })
	f.Settle()
	f.Delete()
	f.Reconcile()
	if !f.Gone() || !f.Has("first", cloudNativePGBackup("first")) {
		t.Error("with Retain the CoderBackup is not gone, or its Backup is")
	}

	f = withCloudNativePG(t, nil)
	f.Settle()
	f.refusal = apierrors.NewForbidden(schema.GroupResource{}, "first", nil)
	f.Delete()
	f.Reconcile()
	if c := f.MustHave("Ready", "False", coderv1alpha1.ReasonDeleting); !strings.Contains(c.Message, "backups.cloudNativePG") {
		t.Errorf("the message is %q", c.Message)
	}
	f.Forward(deletionLimit + time.Second)
	f.Reconcile()
	if !f.Gone() || f.Events.Count("Warning "+coderv1alpha1.ReasonFilesLeftBehind) != 1 {
		t.Errorf("the CoderBackup is not gone, or nothing is reported: %q", f.Events.All())
	}
}

// The author of a CoderBackup of a schedule is the operator, so that of the schedule is checked.
func TestTheAuthorOfAScheduleIsChecked(t *testing.T) {
	f := newScheduleFixture(t, func(spec *coderv1alpha1.CoderBackupScheduleSpec) {
		spec.Template.Destination = coderv1alpha1.BackupDestination{CloudNativePG: &coderv1alpha1.CloudNativePGBackup{ClusterName: "db"}}
	})
	f.stranger = true
	f.Forward(time.Hour)
	f.Settle()
	f.MustHave("Scheduled", "False", coderv1alpha1.ReasonAuthorForbidden)
	if len(f.backups()) != 0 || len(f.asked) == 0 || f.asked[0] != "hourly" {
		t.Fatalf("the backups are %v, checked was %q", f.backups(), f.asked)
	}

	f.stranger = false
	f.Settle()
	list := &coderv1alpha1.CoderBackupList{}
	f.List(list)
	if len(list.Items) != 1 || list.Items[0].Annotations[coderv1alpha1.AnnotationRBACAuthor] != "operator\nsystem:serviceaccounts" {
		t.Fatalf("the backups are %+v", list.Items)
	}
	f.MustHave("Scheduled", "True", coderv1alpha1.ReasonScheduled)
}
