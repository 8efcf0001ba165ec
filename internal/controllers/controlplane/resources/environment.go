package resources

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	workloadresources "github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

// EnvDatabase is the environment variable with the URL of Coder's database.
const EnvDatabase = "CODER_PG_CONNECTION_URL"

const (
	envProvisionerPSK = "CODER_PROVISIONER_DAEMON_PSK"
	envClusterHost    = "CODER_CLUSTER_HOST"

	flagDatabase     = "--postgres-url"
	flagDatabaseAuth = "--postgres-connection-auth"

	// CloudNativePG writes the URL of a cluster's database to the Secret <cluster>-app.
	cloudNativePGSuffix = "-app"
	cloudNativePGKey    = "uri"
)

// environment returns the variables that only a control plane has.
func environment(cp *coderv1alpha1.CoderControlPlane) []corev1.EnvVar {
	var env []corev1.EnvVar
	if secret, key := DatabaseSecret(cp); secret != "" {
		env = append(env, workloadresources.FromSecret(EnvDatabase, secret, key))
	}
	if ref := cp.Spec.ProvisionerPSKSecretRef; ref != nil {
		env = append(env, workloadresources.FromSecret(envProvisionerPSK, ref.Name, orDefault(ref.Key, "psk")))
	}
	return env
}

// DatabaseSecret returns the name and the key of the Secret with the URL of spec.database. Both are
// empty if the spec does not set it.
func DatabaseSecret(cp *coderv1alpha1.CoderControlPlane) (name, key string) {
	switch database := cp.Spec.Database; {
	case database == nil:
		return "", ""
	case database.SecretRef != nil:
		return database.SecretRef.Name, orDefault(database.SecretRef.Key, "url")
	case database.CloudNativePG != nil:
		return database.CloudNativePG.ClusterName + cloudNativePGSuffix, cloudNativePGKey
	}
	return "", ""
}

// DatabaseConfigured reports whether the spec configures a database for coderd: in database,
// extraEnv, envFrom or podTemplate, or as an argument.
func DatabaseConfigured(cp *coderv1alpha1.CoderControlPlane, in Inputs) bool {
	if secret, _ := DatabaseSecret(cp); secret != "" {
		return true
	}
	w := Workload(cp, in)
	if workloadresources.GivesVariable(w, EnvDatabase) {
		return true
	}
	template, err := workloadresources.PodTemplate(w)
	if err != nil {
		template = workloadresources.PlainPodTemplate(w)
	}
	return len(argumentsOf(coderd(template.Spec).Args, flagDatabase)) > 0
}

// argumentsOf returns the arguments that set one of the flags, each with its value.
func argumentsOf(args []string, flags ...string) []string {
	var found []string
	for i, argument := range args {
		name, _, joined := strings.Cut(argument, "=")
		if !slices.Contains(flags, name) {
			continue
		}
		found = append(found, argument)
		if !joined && i+1 < len(args) {
			found = append(found, args[i+1])
		}
	}
	return found
}

func orDefault(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}
