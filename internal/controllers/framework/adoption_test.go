package framework

import (
	"maps"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

// chartLabels returns the selector of a release of Coder's own chart.
func chartLabels() map[string]string {
	return map[string]string{"app.kubernetes.io/name": "coder", "app.kubernetes.io/instance": "release"}
}

// chartDeployment returns a Deployment that another client created. If adopt is not empty, it is
// the value of the annotation that hands the Deployment over.
func chartDeployment(adopt string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "coder", UID: "of-the-chart"}}
	if adopt != "" {
		d.Annotations = map[string]string{coderv1alpha1.AnnotationAdopt: adopt}
	}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: chartLabels()}
	d.Spec.Template.Labels = chartLabels()
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "coder", Image: "coder:1"}}
	return d
}

func withDatabase(cp *coderv1alpha1.CoderControlPlane) {
	cp.Spec.Database = &coderv1alpha1.DatabaseSpec{SecretRef: &coderv1alpha1.DatabaseSecretReference{Name: "db", Key: "url"}}
}

func database(content string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "db"}, Data: map[string][]byte{"url": []byte(content)}}
}

func TestWhatIsHandedOverIsTakenInPlace(t *testing.T) {
	f := newFixture(t, newControlPlane(withDatabase), database("one"), chartDeployment("CoderControlPlane/coder"))
	f.Settle()
	d, service := &appsv1.Deployment{}, &corev1.Service{}
	f.Get("coder", d)
	f.Get("coder", service)
	if d.UID != "of-the-chart" || !metav1.IsControlledBy(d, f.Object()) {
		t.Fatalf("the Deployment was not taken over: %+v", d.ObjectMeta)
	}
	if !maps.Equal(d.Spec.Selector.MatchLabels, chartLabels()) || !maps.Equal(d.Spec.Template.Labels, chartLabels()) ||
		!maps.Equal(service.Spec.Selector, chartLabels()) {
		t.Errorf("the pods are chosen by %v, have %v, and the Service chooses %v; want %v",
			d.Spec.Selector.MatchLabels, d.Spec.Template.Labels, service.Spec.Selector, chartLabels())
	}
	if got := f.Object().PodLabels(); !maps.Equal(got, chartLabels()) {
		t.Errorf("the status tells %v as the labels of the pods, want %v", got, chartLabels())
	}
	if d.Labels[coderv1alpha1.LabelManagedBy] != coderv1alpha1.ManagedBy {
		t.Error("the cache does not see the Deployment, because it has not the operator's label")
	}
}

// Adoption does not roll the pods. A later change of a referenced Secret does.
func TestTheChecksumRollsAdoptedPodsOnlyWhenItChanges(t *testing.T) {
	f := newFixture(t, newControlPlane(withDatabase), database("one"), chartDeployment("CoderControlPlane/coder"))
	checksum := func() string {
		t.Helper()
		f.Settle()
		d := &appsv1.Deployment{}
		f.Get("coder", d)
		return d.Spec.Template.Annotations[coderv1alpha1.AnnotationConfigChecksum]
	}
	if got := checksum(); got != "" {
		t.Errorf("taking over puts the checksum %q on the pods", got)
	}
	f.restart()
	if got := checksum(); got != "" {
		t.Errorf("a new process puts the checksum %q on the pods", got)
	}
	f.Update(database("two"))
	two := checksum()
	if two == "" {
		t.Error("a change of the Secret does not roll the pods")
	}
	f.Update(database("one"))
	if one := checksum(); one == "" || one == two {
		t.Errorf("the checksum is %q after the Secret is as it was at first", one)
	}
}

// While an object is being deleted, its Deployment may be gone before its pods, so the selector in
// the status is used.
func TestPodsAreFoundAfterTheirDeploymentIsGone(t *testing.T) {
	cp := newControlPlane()
	p := Pass{Object: cp, Workload: resources.ControlPlane(cp, resources.Cluster{})}
	p.Previous.Selector = "app.kubernetes.io/name=coder,app.kubernetes.io/instance=release"
	if got := p.PodLabels(); !maps.Equal(got, coderv1alpha1.ControlPlaneLabels(cp.Name)) {
		t.Errorf("without a Deployment that was taken over the labels are %v", got)
	}
	cp.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	if got := p.PodLabels(); !maps.Equal(got, chartLabels()) {
		t.Errorf("while it is deleted the labels are %v, want %v", got, chartLabels())
	}
}

func TestNothingElseIsTakenOver(t *testing.T) {
	controlled := chartDeployment("CoderControlPlane/coder")
	controlled.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "example.com/v1", Kind: "Other", Name: "other", UID: "other", Controller: new(true),
	}}
	expression, everything := chartDeployment("CoderControlPlane/coder"), chartDeployment("CoderControlPlane/coder")
	expression.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "canary", Operator: metav1.LabelSelectorOpDoesNotExist}}
	everything.Spec.Selector.MatchLabels = nil
	for name, d := range map[string]*appsv1.Deployment{
		"with expressions": expression, "of every pod": everything,
		"without the annotation": chartDeployment(""), "for another name": chartDeployment("CoderControlPlane/other"),
		"for another kind": chartDeployment("CoderProvisioner/coder"), "with a controller": controlled,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, newControlPlane(), d)
			f.Settle()
			got := &appsv1.Deployment{}
			f.Get("coder", got)
			if metav1.IsControlledBy(got, f.Object()) || got.Spec.Template.Spec.Containers[0].Image != "coder:1" {
				t.Errorf("the Deployment was taken: %+v", got)
			}
			if chosen := f.Object().PodLabels(); len(chosen) == 0 {
				t.Error("the status chooses every pod of the namespace")
			}
		})
	}
}
