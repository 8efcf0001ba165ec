package apiserver

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// templateTests implements template.Tests in kube-apiserver.
type templateTests struct{ client dynamic.Interface }

func (t templateTests) in(namespace string) dynamic.ResourceInterface {
	return t.client.Resource(coderv1alpha1.GroupVersion.WithResource("codertemplatetests")).Namespace(namespace)
}

// Get implements template.Tests.
func (t templateTests) Get(ctx context.Context, namespace, name string) (*coderv1alpha1.CoderTemplateTest, error) {
	found, err := t.in(namespace).Get(ctx, name, metav1.GetOptions{})
	return templateTest(found, err)
}

// Create implements template.Tests.
func (t templateTests) Create(ctx context.Context, test *coderv1alpha1.CoderTemplateTest, dryRun bool) (*coderv1alpha1.CoderTemplateTest, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(test)
	if err != nil {
		return nil, fmt.Errorf("writing CoderTemplateTest %q: %w", test.Name, err)
	}
	body := &unstructured.Unstructured{Object: fields}
	body.SetGroupVersionKind(coderv1alpha1.GroupVersion.WithKind("CoderTemplateTest"))
	options := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	made, err := t.in(test.Namespace).Create(ctx, body, options)
	return templateTest(made, err)
}

func templateTest(u *unstructured.Unstructured, err error) (*coderv1alpha1.CoderTemplateTest, error) {
	if err != nil {
		return nil, err
	}
	test := &coderv1alpha1.CoderTemplateTest{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, test); err != nil {
		return nil, fmt.Errorf("reading CoderTemplateTest %q: %w", u.GetName(), err)
	}
	return test, nil
}
