package controlplane

import (
	"fmt"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
	"github.com/coder-k8s/coder-k8s/internal/podproblem"
)

// databaseMissing returns a problem if the spec does not configure a database for coderd.
func (s *scope) databaseMissing() *workload.Problem {
	if resources.DatabaseConfigured(s.cp, s.inputs()) {
		return nil
	}
	return &workload.Problem{Reason: coderv1alpha1.ReasonDatabaseMissing,
		Message: "the spec names no database, and the one inside Coder does not run in a container: " +
			"set spec.database, or CODER_PG_CONNECTION_URL in spec.extraEnv (from a Secret), or bring it with spec.envFrom"}
}

// databaseSecretMissing returns a problem if the missing Secret is that of spec.database.
func (s *scope) databaseSecretMissing(reference resources.Reference, key string) *workload.Problem {
	secret, _ := resources.DatabaseSecret(s.cp)
	if secret == "" || reference.Kind != resources.KindSecret || reference.Name != secret {
		return nil
	}
	what := fmt.Sprintf("Secret %q of spec.database", secret)
	remedy := "make it, or correct spec.database.secretRef"
	if cluster := s.cp.Spec.Database.CloudNativePG; cluster != nil {
		what = fmt.Sprintf("Secret %q of the CloudNativePG cluster %q in spec.database", secret, cluster.ClusterName)
		remedy = "CloudNativePG writes it once the cluster's database is there; make the Cluster in this namespace, or correct spec.database.cloudNativePG.clusterName"
	}
	if key != "" {
		return &workload.Problem{Reason: coderv1alpha1.ReasonDatabaseSecretMissing,
			Message: fmt.Sprintf("%s has no key %q with the address of the database; add it, or correct the key in the spec", what, key)}
	}
	return &workload.Problem{Reason: coderv1alpha1.ReasonDatabaseSecretMissing, Message: fmt.Sprintf("%s does not exist: %s", what, remedy)}
}

// databaseTrouble returns a problem if Coder's output shows that it is not ready because of the
// database.
func databaseTrouble(_, words string) *workload.Problem {
	found := podproblem.FindDatabase(words)
	if found == nil {
		return nil
	}
	return &workload.Problem{Reason: coderv1alpha1.ReasonDatabaseUnreachable, Message: fmt.Sprintf(
		"Coder cannot use its database: %s; check the database, and the value of %s", workload.Quote(found.Cause), resources.EnvDatabase)}
}
