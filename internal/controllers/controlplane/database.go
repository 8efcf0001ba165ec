package controlplane

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
	"github.com/coder-k8s/coder-k8s/internal/podproblem"
	"github.com/coder-k8s/coder-k8s/internal/upgrade"
)

func (s *scope) databaseMissing() *framework.Problem {
	if resources.DatabaseConfigured(s.cp, s.Workload) {
		return nil
	}
	return &framework.Problem{Reason: coderv1alpha1.ReasonDatabaseMissing,
		Message: "the spec configures no database, and Coder's built-in PostgreSQL does not run in a container: " +
			"set spec.database, or set CODER_PG_CONNECTION_URL in spec.extraEnv (from a Secret) or through spec.envFrom"}
}

// databaseSecretMissing describes a missing Secret of spec.database, or a missing key in it. A Secret
// that only spec.extraEnv names is described like every other reference, by framework/references.go.
func (s *scope) databaseSecretMissing(reference resources.Reference, key string) *framework.Problem {
	secret, _ := s.cp.Spec.Database.Secret()
	if secret == "" || reference.Kind != resources.KindSecret || reference.Name != secret {
		return nil
	}
	what := fmt.Sprintf("Secret %q of spec.database", secret)
	remedy := "create it, or correct spec.database.secretRef"
	if cluster := s.cp.Spec.Database.CloudNativePG; cluster != nil {
		what = fmt.Sprintf("Secret %q of the CloudNativePG cluster %q in spec.database", secret, cluster.ClusterName)
		remedy = "CloudNativePG creates it together with the cluster's database; create the Cluster in this namespace, or correct spec.database.cloudNativePG.clusterName"
	}
	if key != "" {
		return &framework.Problem{Reason: coderv1alpha1.ReasonDatabaseSecretMissing,
			Message: fmt.Sprintf("%s has no key %q with the connection URL of the database; add it, or correct the key in the spec", what, key)}
	}
	return &framework.Problem{Reason: coderv1alpha1.ReasonDatabaseSecretMissing, Message: fmt.Sprintf("%s does not exist: %s", what, remedy)}
}

// databaseTrouble returns a problem if Coder's output shows that it is not ready because of the
// database.
func (s *scope) databaseTrouble(words string) *framework.Problem {
	found := podproblem.FindDatabase(words)
	if found == nil {
		return nil
	}
	if found.Newer != "" {
		message := found.What + ": " + found.Do
		if wanted := upgrade.Reference(s.cp.Spec.Image); upgrade.Older(wanted, s.cp.Status.Version) {
			message += "; Coder " + s.cp.Status.Version + " has used this database before"
		}
		return &framework.Problem{Reason: coderv1alpha1.ReasonDatabaseSchemaNewer, Message: message}
	}
	return &framework.Problem{Reason: coderv1alpha1.ReasonDatabaseUnreachable, Message: fmt.Sprintf(
		"Coder cannot use its database: %s; %s; the connection URL is %s", framework.Quote(found.Cause), found.Do, s.databaseURL())}
}

// databaseURL describes where a user finds the connection URL of the database.
func (s *scope) databaseURL() string {
	if secret, key, field := s.cp.DatabaseSecret(); secret != "" {
		return fmt.Sprintf("key %q of Secret %q (%s)", key, secret, field)
	}
	return fmt.Sprintf("the value of %s or --postgres-url in the spec", coderv1alpha1.EnvDatabase)
}

// sharing returns the other control planes of the namespace that use the same database.
func (r *Reconciler) sharing(ctx context.Context, cp *coderv1alpha1.CoderControlPlane) ([]coderv1alpha1.CoderControlPlane, error) {
	secret, _, _ := cp.DatabaseSecret()
	if secret == "" {
		return nil, nil
	}
	all := &coderv1alpha1.CoderControlPlaneList{}
	if err := r.kit.Client.List(ctx, all, client.InNamespace(cp.Namespace), framework.ReferringTo(resources.KindSecret, secret)); err != nil {
		return nil, fmt.Errorf("listing the control planes, of which another may use the same database: %w", err)
	}
	return upgrade.Sharing(cp, all.Items), nil
}

// siblings returns requests for the control planes with the database that this one has, or had.
func (r *Reconciler) siblings(ctx context.Context, obj client.Object) []reconcile.Request {
	cp := obj.(*coderv1alpha1.CoderControlPlane)
	others, err := r.sharing(ctx, cp)
	if err != nil {
		log.FromContext(ctx).Error(err, "Could not find the control planes with the same database", "name", cp.Name)
	}
	var requests []reconcile.Request
	for i := range others {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&others[i])})
	}
	return requests
}

// findSharedDatabase looks for an older control plane with the same database, and for one whose pods would overlap with those of
// an upgrade. If it fails, the Deployment is not changed.
func (r *Reconciler) findSharedDatabase(ctx context.Context, s *scope) error {
	others, err := r.sharing(ctx, s.cp)
	s.overlapping = upgrade.Overlapping(others)
	for i := range others {
		if framework.Older(&others[i], s.cp) {
			s.sharedWith = others[i].Name
		}
	}
	return err
}

// databaseExclusive returns a condition only if the database is that of another control plane.
func (s *scope) databaseExclusive() *metav1.Condition {
	if s.sharedWith == "" {
		return nil
	}
	return new(framework.ConditionFalse(coderv1alpha1.ConditionDatabaseExclusive, coderv1alpha1.ReasonDatabaseShared, fmt.Sprintf(
		"CoderControlPlane %q uses the same database, %s: both change the same Coder; give each its own database, or delete one of them",
		s.sharedWith, s.databaseURL())))
}
