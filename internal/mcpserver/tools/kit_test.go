package tools

import (
	"context"
	"io"
	"maps"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/mcptest"
)

// knownKinds are the kinds of the fake cluster.
var knownKinds = kubetest.KindsOf(
	coderv1alpha1.AddToScheme, aggregationv1alpha1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme, discoveryv1.AddToScheme,
)

// fakeKube returns a fake API with these objects, and with these raw responses by "path" or
// "path?query".
func fakeKube(t *testing.T, funcs interceptor.Funcs, raw rawTexts, objects ...client.Object) *callers.Kube {
	t.Helper()
	builder := knownKinds.Cluster(t).WithObjects(objects...).WithStatusSubresource(objects...).WithInterceptorFuncs(funcs)
	for field, value := range templateFields {
		builder.WithIndex(&aggregationv1alpha1.CoderTemplate{}, field, func(obj client.Object) []string {
			return []string{value(obj.(*aggregationv1alpha1.CoderTemplate))}
		})
	}
	builder.WithIndex(&aggregationv1alpha1.CoderTemplateVersion{}, "status.template", func(obj client.Object) []string {
		return []string{obj.(*aggregationv1alpha1.CoderTemplateVersion).Status.Template}
	})
	builder.WithIndex(&aggregationv1alpha1.CoderWorkspace{}, "status.phase", func(obj client.Object) []string {
		return []string{obj.(*aggregationv1alpha1.CoderWorkspace).Status.Phase}
	})
	for field, value := range eventFields {
		builder.WithIndex(&corev1.Event{}, field, func(obj client.Object) []string { return []string{value(obj.(*corev1.Event))} })
	}
	return &callers.Kube{WithWatch: builder.Build(), Raw: raw.Get, Exec: (&mcptest.Workspace{Fail: apierrors.NewNotFound(aggregationv1alpha1.Resource("coderworkspaces"), "x")}).Exec}
}

// templateFields are the field selectors of templates.
var templateFields = map[string]func(*aggregationv1alpha1.CoderTemplate) string{
	"status.organizationName":    func(t *aggregationv1alpha1.CoderTemplate) string { return t.Status.OrganizationName },
	"status.templateName":        func(t *aggregationv1alpha1.CoderTemplate) string { return t.Status.TemplateName },
	"status.latestVersionStatus": func(t *aggregationv1alpha1.CoderTemplate) string { return t.Status.LatestVersionStatus },
}

// ofCoder are the labels of the objects of control plane coder.
var ofCoder = map[string]string{aggregationv1alpha1.LabelControlPlaneName: "coder"}

// eventFields are the field selectors of events.
var eventFields = map[string]func(*corev1.Event) string{
	"involvedObject.name": func(e *corev1.Event) string { return e.InvolvedObject.Name },
	"involvedObject.kind": func(e *corev1.Event) string { return e.InvolvedObject.Kind },
	"type":                func(e *corev1.Event) string { return e.Type },
}

// rawTexts are responses by path and query, or by path alone.
type rawTexts map[string]string

func (r rawTexts) Get(_ context.Context, path string, query url.Values) (io.ReadCloser, error) {
	if body, ok := r[path+"?"+query.Encode()]; ok {
		return io.NopCloser(strings.NewReader(body)), nil
	}
	if body, ok := r[path]; ok {
		return io.NopCloser(strings.NewReader(body)), nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "raw"}, path)
}

// dockerTemplate returns a template as the API serves it, with an active version.
func dockerTemplate() *aggregationv1alpha1.CoderTemplate {
	tmpl := &aggregationv1alpha1.CoderTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: dockerName, UID: "docker", Generation: 1, Labels: maps.Clone(ofCoder)},
		Spec: aggregationv1alpha1.CoderTemplateSpec{
			Organization: "coder", VersionID: activeID, DisplayName: "Docker", Files: map[string]string{"main.tf": "# before"},
		},
		Status: aggregationv1alpha1.CoderTemplateStatus{
			OrganizationName: "coder", TemplateName: "docker", ActiveVersionID: activeID, ActiveVersionName: "v1", LatestVersionID: activeID, LatestVersionName: "v1",
			LatestVersionStatus: "succeeded", Source: &aggregationv1alpha1.TemplateSource{VersionID: activeID, FileCount: 1, SizeBytes: 8, Inline: true},
		},
	}
	versionState(metav1.ConditionTrue, metav1.ConditionFalse, `version "v1" is active`)(tmpl)
	return tmpl
}

// versionState returns a function that sets the conditions of a template.
func versionState(ready, stalled metav1.ConditionStatus, message string) func(client.Object) {
	return func(obj client.Object) {
		tmpl := obj.(*aggregationv1alpha1.CoderTemplate)
		setCondition(&tmpl.Status.Conditions, aggregationv1alpha1.ConditionReady, ready, "Reason", message)
		setCondition(&tmpl.Status.Conditions, aggregationv1alpha1.ConditionStalled, stalled, "Reason", message)
	}
}

// wantEqual checks that two values are equal.
func wantEqual[T any](t *testing.T, want, got T, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
