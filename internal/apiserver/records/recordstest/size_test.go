package recordstest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records/recordstest"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// largeObject is an object of which every field is as long as the client of Coder permits: 256 bytes for a
// name, 4 KiB for a text, 100 agents with 50 apps each, 100 groups that share it, 100 roles, 100 organizations with 2 roles each (64 KiB are the limit for all), and conditions of 8 KiB.
type largeObject struct {
	records.Object
	conditions *[]metav1.Condition
}

func largeConditions(char string) []metav1.Condition {
	var all []metav1.Condition
	for i := range 10 {
		all = append(all, metav1.Condition{Type: fmt.Sprint("Type", i), Status: metav1.ConditionTrue, Reason: "Reason", Message: strings.Repeat(char, 8<<10)})
	}
	return all
}

func largeObjects(char string) map[string]largeObject {
	name, text := strings.Repeat(char, 256), strings.Repeat(char, 4<<10)
	agent := aggregationv1alpha1.WorkspaceAgent{
		Name: name, Status: name, LifecycleState: name, Unhealthy: name, Version: name, OperatingSystem: name, Architecture: name, Directory: name,
	}
	for range 50 {
		agent.Apps = append(agent.Apps, aggregationv1alpha1.WorkspaceApp{Slug: name, DisplayName: name, URL: text, Health: name})
	}
	ws := &aggregationv1alpha1.CoderWorkspace{}
	ws.Spec.AutostartSchedule, ws.Spec.AutomaticUpdates, ws.Spec.TemplateName = &name, name, name
	ws.Status = aggregationv1alpha1.CoderWorkspaceStatus{
		Phase: name, WorkspaceName: name, OwnerName: name, OrganizationName: name, TemplateName: name, LatestBuildStatus: name, LatestBuildError: text,
		LatestBuild: &aggregationv1alpha1.WorkspaceBuild{Error: text, Reason: name, Status: name, TemplateVersionName: name}, Conditions: largeConditions(char),
	}
	var roles []string
	var organizations []aggregationv1alpha1.CoderUserOrganization
	for range 100 {
		share := aggregationv1alpha1.WorkspaceShare{Group: name, Role: name}
		ws.Spec.SharedWith, ws.Status.SharedWith = append(ws.Spec.SharedWith, share), append(ws.Status.SharedWith, share)
		ws.Status.Agents, roles = append(ws.Status.Agents, *agent.DeepCopy()), append(roles, name)
	}
	for range 100 {
		organizations = append(organizations, aggregationv1alpha1.CoderUserOrganization{Name: name, Roles: roles[:2]})
	}
	tmpl := &aggregationv1alpha1.CoderTemplate{}
	tmpl.Spec = aggregationv1alpha1.CoderTemplateSpec{Organization: name, DisplayName: name, Description: text, Icon: text, CORSBehavior: name}
	tmpl.Status = aggregationv1alpha1.CoderTemplateStatus{
		TemplateName: name, OrganizationName: name, ActiveVersionName: name, LatestVersionName: name, LatestVersionStatus: name, LatestVersionError: text,
		DeprecationMessage: text, Conditions: largeConditions(char),
	}
	user := &aggregationv1alpha1.CoderUser{}
	user.Spec = aggregationv1alpha1.CoderUserSpec{Email: name, FullName: name, LoginType: name, Roles: roles, Organizations: organizations}
	user.Status = aggregationv1alpha1.CoderUserStatus{
		Username: name, Email: name, FullName: name, LoginType: name, State: name, Roles: roles, Organizations: organizations, Conditions: largeConditions(char),
	}
	for range 20 {
		user.Status.Tokens = append(user.Status.Tokens, aggregationv1alpha1.CoderUserToken{Name: name})
	}
	return map[string]largeObject{
		"CoderWorkspace": {ws, &ws.Status.Conditions}, "CoderTemplate": {tmpl, &tmpl.Status.Conditions}, "CoderUser": {user, &user.Status.Conditions},
	}
}

// TestEveryFieldAtItsLimit checks that the largest object of each kind has a record that kube-apiserver
// accepts, also if a client has set as much metadata as it may. Its name, spec and conditions are complete.
func TestEveryFieldAtItsLimit(t *testing.T) {
	kubetest.SkipWithRace(t)
	controlPlane := types.NamespacedName{Namespace: "team", Name: "prod"}
	for name, c := range map[string]struct{ char, annotation string }{
		"plain": {"x", ""}, "each byte needs seven": {"<", ""}, "with metadata": {"x", strings.Repeat(`"`, 155<<10)},
	} {
		for kind, object := range largeObjects(c.char) {
			t.Run(name+"/"+kind, func(t *testing.T) {
				ctx := t.Context()
				r := recordstest.New(t)
				store := map[string]*records.Store{"CoderWorkspace": r.Workspaces, "CoderTemplate": r.Templates, "CoderUser": r.Users}[kind]
				object.SetNamespace("team")
				object.SetName("coder.ada.dev")
				object.SetUID(firstID)
				object.SetLabels(map[string]string{aggregationv1alpha1.LabelControlPlaneName: "prod"})
				if c.annotation != "" {
					kept := &metadata.Record{ControlPlane: controlPlane, Kind: kind, Name: "coder.ada.dev", UID: firstID, Annotations: map[string]string{"a": c.annotation}}
					if _, err := r.Put(ctx, kept); err != nil {
						t.Fatal(err)
					}
					object.SetAnnotations(kept.Annotations)
				}
				at := store.Key("team", "coder.ada.dev")
				propose := func() *records.Entry {
					t.Helper()
					revision := uint64(0)
					if known := store.Table.Get(at); known != nil {
						revision = known.Revision
					}
					if err := store.Propose(ctx, records.Proposal{Key: at, Expect: revision, Object: object.DeepCopyObject().(records.Object), Natural: "coder.ada.dev"}); err != nil {
						t.Fatalf("%.300s", err)
					}
					return store.Table.Get(at)
				}
				entry := propose()
				stored := r.Cluster(kind).All()[0]
				data, err := json.Marshal(stored.RecordSpec)
				if err != nil || len(data) > metadata.MaxRecord {
					t.Errorf("the record has %d bytes, %v", len(data), err)
				}
				truncated := meta.FindStatusCondition(conditionsOf(entry.Object), "Truncated")
				if kind == "CoderWorkspace" && truncated == nil || store.Table.Truncated(controlPlane) != map[bool]int{true: 1}[truncated != nil] {
					t.Errorf("the condition is %+v", truncated)
				}
				if again := propose(); again.Revision != entry.Revision || r.Cluster(kind).All()[0].Revision != stored.Revision {
					t.Error("the same object is written again")
				}
				// The metadata can still be changed, and the object deleted.
				kept, ok := r.Get(controlPlane, firstID)
				if !ok {
					kept = &metadata.Record{ControlPlane: controlPlane, Kind: kind, Name: "coder.ada.dev", UID: firstID}
				}
				kept = kept.DeepCopy()
				kept.DeletionTimestamp = &metav1.Time{Time: metav1.Now().Time}
				if _, err := r.Put(ctx, kept); err != nil {
					t.Errorf("recording the deletion: %.300s", err)
				}
				if err := store.Propose(ctx, records.Proposal{Key: at, Expect: store.Table.Get(at).Revision}); err != nil || len(r.Cluster(kind).All()) != 0 {
					t.Errorf("deleting it: %v", err)
				}
			})
		}
	}
}

func conditionsOf(object records.Object) []metav1.Condition {
	switch o := object.(type) {
	case *aggregationv1alpha1.CoderWorkspace:
		return o.Status.Conditions
	case *aggregationv1alpha1.CoderTemplate:
		return o.Status.Conditions
	default:
		return o.(*aggregationv1alpha1.CoderUser).Status.Conditions
	}
}

// TestTooMuchMetadata checks that a client gets 422 for metadata that does not fit into a record, before
// anything changes. An object that has too much of it from an earlier version can still be deleted.
func TestTooMuchMetadata(t *testing.T) {
	ctx := t.Context()
	r := recordstest.New(t)
	kept := labelled(firstID, "a")
	kept.Annotations = map[string]string{"a": strings.Repeat(`"`, 250<<10)}
	if _, err := r.Put(ctx, kept); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "annotations") {
		t.Errorf("quotation marks: %.300s", err)
	}
	kept.Annotations = nil
	for i := range 20_000 {
		kept.Labels[fmt.Sprintf("%060d", i)] = "value"
	}
	if _, err := r.Put(ctx, kept); !apierrors.IsInvalid(err) {
		t.Errorf("labels: %.300s", err)
	}
	if len(r.Writes()) != 0 {
		t.Errorf("written: %v", r.Writes())
	}
	kept.Labels, kept.Annotations = nil, map[string]string{"a": strings.Repeat(`"`, 200<<10)}
	text, err := kept.Text()
	if err != nil {
		t.Fatal(err)
	}
	earlier := &records.Record{Namespace: "team", Name: kept.Name}
	earlier.ControlPlane, earlier.ID, earlier.Kept = dev.Name, string(firstID), text
	if err := errors.Join(r.Cluster("CoderWorkspace").Create(ctx, earlier), r.Workspaces.Learn(ctx, r.Workspaces.Key("team", kept.Name))); err != nil {
		t.Fatal(err)
	}
	known, _ := r.Get(dev, firstID)
	deleted := known.DeepCopy()
	deleted.DeletionTimestamp = &metav1.Time{Time: metav1.Now().Time}
	if deleted, err = r.Put(ctx, deleted); err != nil {
		t.Fatalf("a deletion: %.300s", err)
	}
	more := deleted.DeepCopy()
	more.Annotations["b"] = "b"
	if _, err := r.Put(ctx, more); !apierrors.IsInvalid(err) {
		t.Errorf("more annotations: %.300s", err)
	}
	more = deleted.DeepCopy()
	more.Generation, more.Intent = 100, []byte(`{"a":"`+strings.Repeat("b", 1000)+`"}`)
	if _, err := r.Put(ctx, more); err != nil {
		t.Errorf("the state of the deletion: %.300s", err)
	}
}

// TestARefusedChange checks that a client gets the reason, and no advice to try again, if kube-apiserver
// does not accept a record, and that the change is not sent to Coder.
func TestARefusedChange(t *testing.T) {
	c := newCluster(t)
	ctx := t.Context()
	if err := c.a.Create(ctx, key, workspace("zero"), nil, 0); err != nil {
		t.Fatal(err)
	}
	for code, cause := range map[int32]error{
		400: apierrors.NewBadRequest("a webhook denied the request"),
		413: apierrors.NewInternalError(errors.New("etcdserver: request is too large")),
	} {
		c.records.Refuse("coder.ada.dev", cause)
		err := label(ctx, c.a, fmt.Sprint(code))
		var status apierrors.APIStatus
		if !errors.As(err, &status) || status.Status().Code != code || !strings.Contains(err.Error(), cause.Error()) {
			t.Errorf("%v: %v", cause, err)
		}
		if _, retry := apierrors.SuggestsClientDelay(err); retry {
			t.Errorf("%v says that the client should try again", err)
		}
	}
	c.records.Refuse("coder.ada.dev", nil)
	if err := label(context.WithoutCancel(ctx), c.a, "later"); err != nil {
		t.Error(err)
	}
}
