package resources

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// ControlPlaneContainer is the name of coderd's container in its pods.
const ControlPlaneContainer = "coder"

const (
	// serverCommand is the subcommand of coder that serves. The entry point of the image runs it.
	serverCommand = "server"

	containerHTTPPort = 8080
	// clusterPort is the port of the embedded NATS with which replicas connect to each other. Coder
	// 2.38 uses it instead of PostgreSQL's notifications.
	clusterPort = 6222
)

// ControlPlane returns the control plane in the form that the builders of all kinds use. It refers
// to the spec, so the control plane must not change while the Workload is in use.
func ControlPlane(cp *coderv1alpha1.CoderControlPlane, cluster Cluster) Workload {
	var env []corev1.EnvVar
	if secret, key := cp.Spec.Database.Secret(); secret != "" {
		env = append(env, FromSecret(coderv1alpha1.EnvDatabase, secret, key))
	}
	if ref := cp.Spec.ProvisionerPSKSecretRef; ref != nil {
		env = append(env, FromSecret("CODER_PROVISIONER_DAEMON_PSK", ref.Name, cmp.Or(ref.Key, "psk")))
	}
	account, hash := cmp.Or(cp.Spec.ServiceAccount.Name, cp.Name), Hash(cp.Namespace, cp.Name)
	return Workload{
		Cluster:   cluster,
		Name:      cp.Name,
		Namespace: cp.Namespace,
		Labels:    coderv1alpha1.ControlPlaneLabels(cp.Name),
		// Coder's own chart uses this name.
		Component:          "coderd",
		Container:          ControlPlaneContainer,
		Image:              cmp.Or(cp.Spec.Image, DefaultImage),
		Subcommand:         []string{serverCommand},
		Args:               []string{fmt.Sprintf("--http-address=0.0.0.0:%d", containerHTTPPort)},
		Env:                env,
		PeerPorts:          []int32{clusterPort},
		ServiceAccountName: account,
		GracePeriodSeconds: 60, // In this time coderd ends the connections to workspaces.
		Spec:               &cp.Spec.WorkloadSpec,
		Serving: &Serving{
			Spec: &cp.Spec.ServingSpec, HTTPPort: containerHTTPPort, HTTPSPort: 8443, ClusterHost: envClusterHost, Migrates: true,
			ClusterAccessURL: cp.Spec.EnvUseClusterAccessURL == nil || *cp.Spec.EnvUseClusterAccessURL,
		},
		Rights: &Rights{
			// The names are the same in every namespace. They contain a hash of the control plane, because two control
			// planes may grant permissions in one namespace.
			Spec: &cp.Spec.RBAC, RoleName: ScopedName(account, hash, "-workspace-perms"), BindingName: ScopedName(account, hash, ""),
			// An owner reference cannot point to another namespace. The uid distinguishes control
			// planes that were created with the same name.
			OwnerLabels: map[string]string{
				coderv1alpha1.LabelControlPlane:          cp.Name,
				coderv1alpha1.LabelControlPlaneNamespace: cp.Namespace,
			},
			OwnerAnnotations: map[string]string{coderv1alpha1.AnnotationOwnerUID: string(cp.UID)},
		},
	}
}

const (
	envClusterHost = "CODER_CLUSTER_HOST"
	flagDatabase   = "--postgres-url"
)

// DatabaseSecretOf returns the Secret and the key from which Coder's container of a pod template gets the URL of its
// database. Both are empty if there is none.
func DatabaseSecretOf(w Workload, template *corev1.PodTemplateSpec) (name, key string) {
	if c := containerNamed(template.Spec.Containers, PodContainer(w)); c != nil {
		for _, variable := range c.Env {
			if from := variable.ValueFrom; variable.Name == coderv1alpha1.EnvDatabase && from != nil && from.SecretKeyRef != nil {
				name, key = from.SecretKeyRef.Name, from.SecretKeyRef.Key
			}
		}
	}
	return name, key
}

// DatabaseConfigured reports whether the spec configures a database for coderd: in database,
// extraEnv, envFrom or podTemplate, or as an argument.
func DatabaseConfigured(cp *coderv1alpha1.CoderControlPlane, w Workload) bool {
	if secret, _ := cp.Spec.Database.Secret(); secret != "" {
		return true
	}
	if GivesVariable(w, coderv1alpha1.EnvDatabase) {
		return true
	}
	return len(argumentsOf(coderd(MergeablePodTemplate(w).Spec).Args, flagDatabase)) > 0
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
