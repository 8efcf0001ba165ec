package controlplane

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/steps"
)

// checkName holds back a control plane whose name cannot be that of its Service.
// The CRD refuses such names; one may still come from a restored backup or from
// the public predecessor's CRD.
func checkName(_ context.Context, s *scope) error {
	message := invalidName(s.cp.Name)
	if message == "" {
		return nil
	}
	s.problems = append(s.problems, problem{coderv1alpha1.ReasonInvalidName, message})
	return &steps.Stalled{Reason: coderv1alpha1.ReasonInvalidName, Message: message}
}

func invalidName(name string) string {
	const remedy = "the name becomes that of a Service; delete this control plane and make one with another name"
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
