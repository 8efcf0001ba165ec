package plugin

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/plugin/session"
)

// explainUnavailable wraps each command: if the aggregated API returns that Coder is unavailable,
// the error lists the control planes that are not ready.
func explainUnavailable(s *session.Session, cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		explainUnavailable(s, child)
	}
	do := cmd.RunE
	if do == nil {
		return
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := do(cmd, args)
		if !apierrors.IsServiceUnavailable(err) {
			return err
		}
		for _, cause := range planesNotReady(cmd.Context(), s) {
			err = fmt.Errorf("%w\n%s", err, cause)
		}
		return fmt.Errorf("%w\nkubectl coder status shows what is wrong", err)
	}
}

// planesNotReady describes the control planes of the namespace that are not ready.
func planesNotReady(ctx context.Context, s *session.Session) []string {
	cluster, err := s.Cluster()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, session.CompletionTimeout)
	defer cancel()
	var planes coderv1alpha1.CoderControlPlaneList
	if err := cluster.List(ctx, &planes, client.InNamespace(cluster.Namespace)); err != nil {
		return nil
	}
	var causes []string
	for i := range planes.Items {
		cp := &planes.Items[i]
		ready := meta.FindStatusCondition(cp.Status.Conditions, coderv1alpha1.ConditionReady)
		if ready == nil || ready.Status == metav1.ConditionTrue && ready.Reason != coderv1alpha1.ReasonScaledToZero {
			continue
		}
		cause := fmt.Sprintf("control plane %s/%s is %s: %s", cp.Namespace, cp.Name, ready.Reason, strings.TrimSpace(ready.Message))
		if ready.Reason == coderv1alpha1.ReasonScaledToZero {
			cause += fmt.Sprintf("; kubectl -n %s scale codercontrolplane %s --replicas 1 starts it", cp.Namespace, cp.Name)
		}
		causes = append(causes, cause)
	}
	return causes
}
