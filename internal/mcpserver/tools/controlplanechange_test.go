package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// changes is a fake API that records patches, and increments generations as Kubernetes
// does.
type changes struct {
	// tried contains all patches, made contains those that are not dry runs.
	tried, made []string
	// refuse contains errors, by kind of patch.
	refuse map[string]error
	// watched is called when a watch begins. It simulates the operator.
	watched func(client.WithWatch)
}

func (c *changes) note(what string, patch client.Patch, obj client.Object, dryRun []string, manager string) (dry bool, err error) {
	data, err := patch.Data(obj)
	if err != nil {
		return false, err
	}
	if manager != "coder-k8s-mcp" {
		return false, fmt.Errorf("the field manager is %q", manager)
	}
	c.tried = append(c.tried, what)
	if err := c.refuse[what]; err != nil {
		return false, err
	}
	if len(dryRun) > 0 {
		return true, nil
	}
	c.made = append(c.made, fmt.Sprintf("%s %s %s", what, patch.Type(), data))
	return false, nil
}

func (c *changes) funcs() interceptor.Funcs {
	return interceptor.Funcs{
		Patch: func(ctx context.Context, kube client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			o := (&client.PatchOptions{}).ApplyOptions(opts)
			what := "image"
			if _, ok := obj.(*appsv1.Deployment); ok {
				what = "restart"
			}
			if dry, err := c.note(what, patch, obj, o.DryRun, o.FieldManager); dry || err != nil {
				return err
			}
			if err := kube.Patch(ctx, obj, patch, opts...); err != nil {
				return err
			}
			obj.SetGeneration(obj.GetGeneration() + 1)
			return kube.Update(ctx, obj)
		},
		SubResourcePatch: func(ctx context.Context, kube client.Client, name string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			o := (&client.SubResourcePatchOptions{}).ApplyOptions(opts)
			if _, ok := o.SubResourceBody.(*autoscalingv1.Scale); !ok || name != "scale" {
				return fmt.Errorf("the subresource is %s with %T", name, o.SubResourceBody)
			}
			if dry, err := c.note("scale", patch, obj, o.DryRun, o.FieldManager); dry || err != nil {
				return err
			}
			var scale autoscalingv1.Scale
			data, err := patch.Data(obj)
			if err != nil {
				return err
			}
			if err := json.Unmarshal(data, &scale); err != nil {
				return err
			}
			cp := &coderv1alpha1.CoderControlPlane{}
			if err := kube.Get(ctx, client.ObjectKeyFromObject(obj), cp); err != nil {
				return err
			}
			cp.Spec.Replicas = &scale.Spec.Replicas
			cp.Generation++
			return kube.Update(ctx, cp)
		},
		Watch: func(ctx context.Context, kube client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
			watcher, err := kube.Watch(ctx, list, opts...)
			if err == nil && c.watched != nil {
				c.watched(kube)
			}
			return watcher, err
		},
	}
}

const imagePatch = `image application/merge-patch+json {"spec":{"image":"coder:v2"}}`

func scalePatch(replicas int) string {
	return fmt.Sprintf(`scale application/merge-patch+json {"spec":{"replicas":%d}}`, replicas)
}

func TestChangeControlPlane(t *testing.T) {
	const old = "ghcr.io/coder/coder:v2.30.0"
	state := func(image string, replicas int32) controlPlaneState {
		return controlPlaneState{Image: image, Replicas: replicas}
	}
	for name, tc := range map[string]struct {
		in      changeControlPlaneInput
		want    []string
		after   controlPlaneState
		changed bool
	}{
		"the image":               {changeControlPlaneInput{Image: "coder:v2", Confirm: "coder"}, []string{imagePatch}, state("coder:v2", 2), true},
		"scaling down":            {changeControlPlaneInput{Replicas: ptr.To[int32](0), Confirm: "coder"}, []string{scalePatch(0)}, state(old, 0), true},
		"scaling up needs no yes": {changeControlPlaneInput{Replicas: ptr.To[int32](5)}, []string{scalePatch(5)}, state(old, 5), true},
		"both":                    {changeControlPlaneInput{Image: "coder:v2", Replicas: ptr.To[int32](3), Confirm: "coder"}, []string{imagePatch, scalePatch(3)}, state("coder:v2", 3), true},
		"nothing new":             {changeControlPlaneInput{Image: old, Replicas: ptr.To[int32](2)}, nil, state(old, 2), false},
		"a dry run needs no yes":  {changeControlPlaneInput{Image: "coder:v2", Replicas: ptr.To[int32](0), DryRun: true, Wait: true}, nil, state("coder:v2", 0), false},
	} {
		t.Run(name, func(t *testing.T) {
			api := &changes{}
			tc.in.Namespace, tc.in.Name = "coder", "coder"
			kube := fakeKube(t, api.funcs(), nil, newControlPlane("coder"))
			out, err := changeControlPlane(t.Context(), &toolset.Call{Kube: kube}, tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, api.made); diff != "" {
				t.Errorf("patches (-want +got):\n%s", diff)
			}
			if out.Before != state(old, 2) || out.After != tc.after || out.Changed != tc.changed {
				t.Errorf("%+v", out)
			}
			if out.Ready == tc.changed {
				t.Errorf("changed %v and ready %v: %s", tc.changed, out.Ready, out.Message)
			}
		})
	}
}

func TestRestartControlPlaneDoesWhatKubectlDoes(t *testing.T) {
	api := &changes{}
	cp := newControlPlane("coder")
	d := newDeployment(cp)
	d.Spec.Template.Annotations = map[string]string{restartedAtAnnotation: noonUTC, "other": "stays"}
	kube := fakeKube(t, api.funcs(), nil, cp, d)
	out, err := changeControlPlane(t.Context(), &toolset.Call{Kube: kube}, changeControlPlaneInput{Namespace: "coder", Name: "coder", Restart: true, Confirm: "coder"})
	if err != nil {
		t.Fatal(err)
	}
	when, err := time.Parse(time.RFC3339, out.After.RestartedAt)
	if err != nil || time.Since(when) > time.Minute || out.Before.RestartedAt != noonUTC || !out.Changed {
		t.Errorf("%+v, %v", out, err)
	}
	want := []string{fmt.Sprintf(`restart application/strategic-merge-patch+json {"metadata":{"uid":"deployment-uid"},"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":%q}}}}}`, out.After.RestartedAt)}
	wantEqual(t, want, api.made)
	got := served(t, kube, "coder", &appsv1.Deployment{}).Spec.Template.Annotations
	wantEqual(t, map[string]string{restartedAtAnnotation: out.After.RestartedAt, "other": "stays"}, got)
}

func TestChangeControlPlaneRefuses(t *testing.T) {
	deleted := newControlPlane("coder")
	deleted.Finalizers, deleted.DeletionTimestamp = []string{"x"}, &noon
	foreign := newDeployment(newControlPlane("coder"))
	foreign.OwnerReferences[0].UID = "another"
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "CoderControlPlane"}, "coder", nil)
	image := changeControlPlaneInput{Image: "coder:v2"}
	for name, tc := range map[string]struct {
		in      changeControlPlaneInput
		objects []client.Object
		refuse  map[string]error
		want    string
	}{
		"nothing to do":            {changeControlPlaneInput{}, []client.Object{newControlPlane("coder")}, nil, "give restart, replicas or image"},
		"what is not there":        {image, nil, nil, "not found"},
		"what is being deleted":    {image, []client.Object{deleted}, nil, "is being deleted"},
		"somebody's Deployment":    {changeControlPlaneInput{Restart: true}, []client.Object{newControlPlane("coder"), foreign}, nil, "does not belong to the control plane"},
		"no Deployment":            {changeControlPlaneInput{Restart: true}, []client.Object{newControlPlane("coder")}, nil, "get deployments.apps coder/coder"},
		"without a yes":            {image, []client.Object{newControlPlane("coder")}, nil, `Change control plane coder/coder: set its image from ghcr.io/coder/coder:v2.30.0 to coder:v2? Its users may lose their connection.`},
		"another yes":              {changeControlPlaneInput{Image: "coder:v2", Confirm: "other"}, []client.Object{newControlPlane("coder")}, nil, `confirm is "other" and must be "coder"`},
		"the API, before it asks":  {image, []client.Object{newControlPlane("coder")}, map[string]error{"image": invalid}, "patch codercontrolplanes.coder.com coder/coder"},
		"the API, of one of two":   {changeControlPlaneInput{Image: "coder:v2", Replicas: ptr.To[int32](9), Confirm: "coder"}, []client.Object{newControlPlane("coder")}, map[string]error{"scale": denied("patch")}, "patch codercontrolplanes/scale.coder.com coder/coder"},
		"the API, of more pods":    {changeControlPlaneInput{Replicas: ptr.To[int32](9)}, []client.Object{newControlPlane("coder")}, map[string]error{"scale": denied("patch")}, "patch codercontrolplanes/scale.coder.com coder/coder"},
		"the API, of a restart":    {changeControlPlaneInput{Restart: true, Confirm: "coder"}, []client.Object{newControlPlane("coder"), newDeployment(newControlPlane("coder"))}, map[string]error{"restart": denied("patch")}, "patch deployments.apps coder/coder"},
		"a restart without a yes":  {changeControlPlaneInput{Restart: true}, []client.Object{newControlPlane("coder"), newDeployment(newControlPlane("coder"))}, nil, "restart its pods?"},
		"a restart with more pods": {changeControlPlaneInput{Restart: true, Replicas: ptr.To[int32](3)}, []client.Object{newControlPlane("coder"), newDeployment(newControlPlane("coder"))}, nil, "scale it from 2 to 3 pods, restart its pods?"},
		"scaling down without one": {changeControlPlaneInput{Replicas: ptr.To[int32](1)}, []client.Object{newControlPlane("coder")}, nil, "scale it from 2 to 1 pods?"},
		"up and more without one":  {changeControlPlaneInput{Replicas: ptr.To[int32](3), Image: "coder:v2"}, []client.Object{newControlPlane("coder")}, nil, "to coder:v2, scale it from 2 to 3 pods?"},
	} {
		t.Run(name, func(t *testing.T) {
			api := &changes{refuse: tc.refuse}
			tc.in.Namespace, tc.in.Name = "coder", "coder"
			_, err := changeControlPlane(t.Context(), &toolset.Call{Kube: fakeKube(t, api.funcs(), nil, tc.objects...)}, tc.in)
			wantError(t, err, tc.want)
			if len(api.made) > 0 {
				t.Errorf("it was changed all the same: %v", api.made)
			}
		})
	}
}

// operate changes the status of the control plane as the operator would.
func operate(t *testing.T, kube client.WithWatch, change func(*coderv1alpha1.CoderControlPlane)) {
	t.Helper()
	cp := &coderv1alpha1.CoderControlPlane{}
	if err := kube.Get(t.Context(), types.NamespacedName{Namespace: "coder", Name: "coder"}, cp); err != nil {
		t.Fatal(err)
	}
	change(cp)
	if err := kube.Status().Update(t.Context(), cp); err != nil {
		t.Fatal(err)
	}
}

func TestChangeControlPlaneWaitsForTheOperator(t *testing.T) {
	for name, tc := range map[string]struct {
		ready   metav1.ConditionStatus
		stalled bool
		want    string
	}{
		"ready":                  {metav1.ConditionTrue, false, "Ready: it works"},
		"only a person can help": {metav1.ConditionFalse, true, "ImagePullFailed: it works"},
	} {
		t.Run(name, func(t *testing.T) {
			api := &changes{watched: func(kube client.WithWatch) {
				operate(t, kube, func(cp *coderv1alpha1.CoderControlPlane) {
					settle(cp, metav1.ConditionFalse, "Progressing", "0 of 2 pods are ready")
				})
				operate(t, kube, func(cp *coderv1alpha1.CoderControlPlane) {
					reason := "Ready"
					if tc.stalled {
						reason = "ImagePullFailed"
					}
					settle(cp, tc.ready, reason, "it works")
					if tc.stalled {
						setCondition(&cp.Status.Conditions, coderv1alpha1.ConditionStalled, metav1.ConditionTrue, reason, "it works")
					}
				})
			}}
			kube := fakeKube(t, api.funcs(), nil, newControlPlane("coder"))
			out, err := changeControlPlane(t.Context(), &toolset.Call{Kube: kube}, changeControlPlaneInput{
				Namespace: "coder", Name: "coder", Image: "coder:v2", Wait: true, TimeoutSeconds: 60, Confirm: "coder",
			})
			if tc.stalled {
				wantError(t, err, "it works; diagnose_control_plane says what to do")
			} else if err != nil {
				t.Error(err)
			}
			if out.Message != tc.want || !out.Changed || out.Ready != (tc.ready == metav1.ConditionTrue) {
				t.Errorf("%+v, %v", out, err)
			}
		})
	}
}

func TestRestartControlPlaneWaitsForThePods(t *testing.T) {
	cp := newControlPlane("coder")
	var watched int
	api := &changes{}
	api.watched = func(kube client.WithWatch) {
		watched++
		d := &appsv1.Deployment{}
		if err := kube.Get(t.Context(), types.NamespacedName{Namespace: "coder", Name: "coder"}, d); err != nil {
			t.Fatal(err)
		}
		for _, updated := range []int32{0, 1, 2} {
			d.Status.ObservedGeneration, d.Status.UpdatedReplicas = d.Generation, updated
			if err := kube.Status().Update(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
	}
	kube := fakeKube(t, api.funcs(), nil, cp, newDeployment(cp))
	out, err := changeControlPlane(t.Context(), &toolset.Call{Kube: kube}, changeControlPlaneInput{
		Namespace: "coder", Name: "coder", Restart: true, Wait: true, TimeoutSeconds: 60, Confirm: "coder",
	})
	if err != nil || !out.Ready || watched != 1 {
		t.Errorf("%+v, watched %d times, %v", out, watched, err)
	}
}

func TestRestartControlPlaneEndsWithTheRollout(t *testing.T) {
	cp := newControlPlane("coder")
	api := &changes{watched: func(kube client.WithWatch) {
		d := &appsv1.Deployment{}
		if err := kube.Get(t.Context(), types.NamespacedName{Namespace: "coder", Name: "coder"}, d); err != nil {
			t.Fatal(err)
		}
		d.Status.ObservedGeneration, d.Status.UpdatedReplicas = d.Generation, 0
		d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: "False", Reason: "ProgressDeadlineExceeded", Message: "no progress"}}
		if err := kube.Status().Update(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}}
	out, err := changeControlPlane(t.Context(), &toolset.Call{Kube: fakeKube(t, api.funcs(), nil, cp, newDeployment(cp))}, changeControlPlaneInput{
		Namespace: "coder", Name: "coder", Restart: true, Wait: true, TimeoutSeconds: 60, Confirm: "coder",
	})
	wantError(t, err, "no progress; diagnose_control_plane says what to do")
	if !out.Changed {
		t.Errorf("%+v", out)
	}
}

// The pods are ready before the operator has reached Coder in them. The status from before
// the restart says that the control plane is ready, and must be ignored.
func TestRestartControlPlaneWaitsForTheOperatorToo(t *testing.T) {
	cp := newControlPlane("coder")
	var watched []string
	api := &changes{}
	api.watched = func(kube client.WithWatch) {
		d := &appsv1.Deployment{}
		if err := kube.Get(t.Context(), types.NamespacedName{Namespace: "coder", Name: "coder"}, d); err != nil {
			t.Fatal(err)
		}
		if ok, _ := rolledOut(d); ok {
			watched = append(watched, "control plane")
			operate(t, kube, func(cp *coderv1alpha1.CoderControlPlane) {
				settle(cp, metav1.ConditionTrue, "Ready", "the new pods work")
			})
			return
		}
		watched = append(watched, "Deployment")
		operate(t, kube, func(cp *coderv1alpha1.CoderControlPlane) {
			settle(cp, metav1.ConditionFalse, "Waiting", "waits until the Service leads to them")
		})
		d.Status.ObservedGeneration, d.Status.UpdatedReplicas = d.Generation, 2
		if err := kube.Status().Update(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	kube := fakeKube(t, api.funcs(), nil, cp, newDeployment(cp))
	out, err := changeControlPlane(t.Context(), &toolset.Call{Kube: kube}, changeControlPlaneInput{
		Namespace: "coder", Name: "coder", Restart: true, Wait: true, TimeoutSeconds: 60, Confirm: "coder",
	})
	if err != nil || !out.Ready || out.Message != "Ready: the new pods work" {
		t.Errorf("%+v, %v", out, err)
	}
	if diff := cmp.Diff([]string{"Deployment", "control plane"}, watched); diff != "" {
		t.Errorf("what was waited for (-want +got):\n%s", diff)
	}
}

func TestChangeControlPlaneThatVanishesOrTakesTooLong(t *testing.T) {
	in := changeControlPlaneInput{Namespace: "coder", Name: "coder", Replicas: ptr.To[int32](5), Wait: true, TimeoutSeconds: 1}
	api := &changes{watched: func(kube client.WithWatch) {
		if err := kube.Delete(t.Context(), newControlPlane("coder")); err != nil {
			t.Fatal(err)
		}
	}}
	_, err := changeControlPlane(t.Context(), &toolset.Call{Kube: fakeKube(t, api.funcs(), nil, newControlPlane("coder"))}, in)
	wantError(t, err, "the control plane coder/coder was deleted in the meantime")

	_, err = changeControlPlane(t.Context(), &toolset.Call{Kube: fakeKube(t, (&changes{}).funcs(), nil, newControlPlane("coder"))}, in)
	var unfinished toolset.UnfinishedError
	if !errors.As(err, &unfinished) || !strings.Contains(err.Error(), "the operator has not reconciled the newest spec yet") {
		t.Errorf("%v", err)
	}
}

func TestADryRunDoesNotWait(t *testing.T) {
	cp := newControlPlane("coder")
	settle(cp, metav1.ConditionFalse, "Progressing", "0 of 2 pods are ready")
	out, err := changeControlPlane(t.Context(), &toolset.Call{Kube: fakeKube(t, (&changes{}).funcs(), nil, cp)}, changeControlPlaneInput{
		Namespace: "coder", Name: "coder", Image: "coder:v2", DryRun: true, Wait: true, TimeoutSeconds: 1,
	})
	if err != nil || out.Ready || out.Changed || !strings.HasPrefix(out.Message, "dry run: this would be accepted; nothing was changed. Not checked: whether the image can be pulled") {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestRolledOut(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*appsv1.Deployment)
		want   bool
	}{
		"all new":          {func(*appsv1.Deployment) {}, true},
		"not seen yet":     {func(d *appsv1.Deployment) { d.Generation++ }, false},
		"old ones left":    {func(d *appsv1.Deployment) { d.Status.Replicas = 3 }, false},
		"new ones missing": {func(d *appsv1.Deployment) { d.Status.UpdatedReplicas, d.Status.Replicas = 1, 1 }, false},
		"not available":    {func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 1 }, false},
		"none wanted": {func(d *appsv1.Deployment) {
			d.Spec.Replicas, d.Status = ptr.To[int32](0), appsv1.DeploymentStatus{ObservedGeneration: 5}
		}, true},
	} {
		d := newDeployment(newControlPlane("coder"))
		tc.change(d)
		if ok, message := rolledOut(d); ok != tc.want || message == "" {
			t.Errorf("%s: %v, %q", name, ok, message)
		}
	}
}
