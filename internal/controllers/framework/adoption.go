package framework

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

// LookForAdopted reads the workload's Deployment and sets Current, Workload.Live, and Workload.Adopted if
// the Deployment was handed over by an earlier owner. The pods of such a Deployment have other
// labels than the operator's. Every step that selects pods needs them, so this step runs before
// those.
func (t *Toolkit) LookForAdopted(ctx context.Context, p *Pass) error {
	var d *appsv1.Deployment
	claim := t.controlledBy(p)
	// The cache may not contain a Deployment that was just handed over.
	for _, reader := range []client.Reader{t.Client, t.Live} {
		found := &appsv1.Deployment{}
		err := reader.Get(ctx, client.ObjectKey{Namespace: p.Workload.Namespace, Name: p.Workload.Name}, found)
		if client.IgnoreNotFound(err) != nil {
			err = fmt.Errorf("reading Deployment %q: %w", p.Workload.Name, err)
			p.Complain(coderv1alpha1.ReasonApplyFailed, Redact(err.Error()))
			return err
		}
		if err == nil && claim.Holds(found) {
			d = found
			break
		}
	}
	if d == nil {
		return nil
	}
	// Services and policies can select by label values only. With an empty selector they would
	// select every pod of the namespace.
	if s := d.Spec.Selector; s != nil && (len(s.MatchLabels) == 0 || len(s.MatchExpressions) > 0) {
		return p.failed(waitingProblem(coderv1alpha1.ReasonNotOwned, fmt.Sprintf(
			"Deployment %q cannot be taken over, because its selector is not made of matchLabels alone; delete one of the two, "+
				"or remove the annotation %s", d.Name, coderv1alpha1.AnnotationAdopt)))
	}
	p.Current, p.Workload.Live = d, d.Spec.Template.DeepCopy()
	p.Workload.Adopted = resources.AdoptedFrom(p.Workload, d)
	return nil
}

// OwnDeployment returns the workload's Deployment that a reader has, or nil if there is none or
// another owner controls it.
func (p *Pass) OwnDeployment(ctx context.Context, reader client.Reader) (*appsv1.Deployment, error) {
	d := &appsv1.Deployment{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: p.Workload.Namespace, Name: p.Workload.Name}, d)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Deployment %q: %w", p.Workload.Name, err)
	case !metav1.IsControlledBy(d, p.Object):
		return nil, nil
	}
	return d, nil
}
