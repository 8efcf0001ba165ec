package workload

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/steps"
)

// CheckName stops the pass if no valid names for the children can be derived from the object's
// name. The CRD rejects such names, but an object can still come from a restored backup or from the
// CRD of the public predecessor.
func (t *Toolkit) CheckName(_ context.Context, p *Pass) error {
	message := InvalidName(p)
	if message == "" {
		return nil
	}
	p.Complain(coderv1alpha1.ReasonInvalidName, message)
	return &steps.Stalled{Reason: coderv1alpha1.ReasonInvalidName, Message: message}
}

// InvalidName returns why the name of the workload is invalid, or an empty string. If the workload
// has a Service, the name must be valid for a Service, otherwise for a Deployment.
func InvalidName(p *Pass) string {
	remedy := "delete this " + p.Kind.Noun + " and make one with another name"
	name := p.Workload.Name
	if p.Workload.Serving == nil {
		if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
			return fmt.Sprintf("the name %q cannot be that of a Deployment: %s", name, remedy)
		}
		return ""
	}
	remedy = "the name becomes that of a Service; " + remedy
	switch {
	case len(name) > validation.DNS1035LabelMaxLength:
		return fmt.Sprintf("the name has %d characters and may have %d: %s", len(name), validation.DNS1035LabelMaxLength, remedy)
	case strings.Contains(name, "."):
		return fmt.Sprintf("the name %q must not contain a dot: %s", name, remedy)
	case len(validation.IsDNS1035Label(name)) > 0:
		return fmt.Sprintf("the name %q must begin with a letter: %s", name, remedy)
	}
	return ""
}
