package resources

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// ControlPlaneInputs contains the values that a control plane needs in addition to its spec. The
// reconciler reads them first.
type ControlPlaneInputs struct {
	// ClusterDomain is the cluster's DNS domain. Empty means cluster.local.
	ClusterDomain string
	// PodIPv6 reports whether the primary address of pods is an IPv6 address.
	PodIPv6 bool
	// EnvFromNames are the names of the variables from spec.envFrom.
	EnvFromNames map[string]bool
	// OperatorNamespace is the namespace of the operator. Empty means that it is unknown.
	OperatorNamespace string
	// Checksum identifies the content of the Secrets and ConfigMaps that the pods refer to.
	Checksum string
	// Adopted describes a Deployment that was handed over, or is nil.
	Adopted *Adopted
	// KeepReplicas keeps the number of replicas that another client set in the Deployment.
	KeepReplicas bool
}

// ControlPlaneContainer is the name of coderd's container in its pods.
const ControlPlaneContainer = "coder"

const (
	// controlPlaneGracePeriod is the time in seconds in which coderd can end the connections to
	// workspaces.
	controlPlaneGracePeriod = 60
	// serverCommand is the subcommand of coder that serves. The entry point of the image runs it.
	serverCommand = "server"

	containerHTTPPort  = 8080
	containerHTTPSPort = 8443
	// clusterPort is the port of the embedded NATS with which replicas connect to each other. Coder
	// 2.38 uses it instead of PostgreSQL's notifications.
	clusterPort = 6222
)

// ControlPlane returns the control plane in the form that the builders of all kinds use. It refers
// to the spec, so the control plane must not change while the Workload is in use.
func ControlPlane(cp *coderv1alpha1.CoderControlPlane, in ControlPlaneInputs) Workload {
	return Workload{
		Name:      cp.Name,
		Namespace: cp.Namespace,
		Labels:    coderv1alpha1.ControlPlaneLabels(cp.Name),
		// Coder's own chart uses this name.
		Component:          "coderd",
		Container:          ControlPlaneContainer,
		Image:              controlPlaneImage(cp),
		Subcommand:         []string{serverCommand},
		Args:               []string{fmt.Sprintf("--http-address=0.0.0.0:%d", containerHTTPPort)},
		Env:                controlPlaneEnvironment(cp),
		PeerPorts:          []int32{clusterPort},
		EnvFromNames:       in.EnvFromNames,
		ServiceAccountName: controlPlaneAccount(cp),
		GracePeriodSeconds: controlPlaneGracePeriod,
		Checksum:           in.Checksum,
		KeepReplicas:       in.KeepReplicas,
		OperatorNamespace:  in.OperatorNamespace,
		Adopted:            in.Adopted,
		Spec:               &cp.Spec.WorkloadSpec,
		Serving:            controlPlaneServing(cp, in),
		Rights:             controlPlaneRights(cp),
	}
}

// controlPlaneImage returns the image of coderd.
func controlPlaneImage(cp *coderv1alpha1.CoderControlPlane) string {
	if cp.Spec.Image == "" {
		// The schema's default was not applied.
		return DefaultImage
	}
	return cp.Spec.Image
}

func controlPlaneServing(cp *coderv1alpha1.CoderControlPlane, in ControlPlaneInputs) *Serving {
	return &Serving{
		Spec:             &cp.Spec.ServingSpec,
		HTTPPort:         containerHTTPPort,
		HTTPSPort:        containerHTTPSPort,
		ClusterDomain:    in.ClusterDomain,
		PodIPv6:          in.PodIPv6,
		ClusterHost:      envClusterHost,
		ClusterAccessURL: cp.Spec.EnvUseClusterAccessURL == nil || *cp.Spec.EnvUseClusterAccessURL,
	}
}

func controlPlaneRights(cp *coderv1alpha1.CoderControlPlane) *Rights {
	return &Rights{
		Spec:        &cp.Spec.RBAC,
		RoleName:    controlPlaneRoleName(cp),
		BindingName: controlPlaneBindingName(cp),
		// An owner reference cannot point to another namespace. The uid distinguishes control
		// planes that were created with the same name.
		OwnerLabels: map[string]string{
			coderv1alpha1.LabelControlPlane:          cp.Name,
			coderv1alpha1.LabelControlPlaneNamespace: cp.Namespace,
		},
		OwnerAnnotations: map[string]string{coderv1alpha1.AnnotationOwnerUID: string(cp.UID)},
	}
}

// controlPlaneAccount returns the name of the ServiceAccount of coderd's pods.
func controlPlaneAccount(cp *coderv1alpha1.CoderControlPlane) string {
	if cp.Spec.ServiceAccount.Name != "" {
		return cp.Spec.ServiceAccount.Name
	}
	return cp.Name
}

// controlPlaneRoleName returns the name of the Role with the permissions for workspaces. It is the
// same in every namespace. It contains a hash of the control plane, because two control planes may
// grant permissions in one namespace.
func controlPlaneRoleName(cp *coderv1alpha1.CoderControlPlane) string {
	return ScopedName(controlPlaneAccount(cp), Hash(cp.Namespace, cp.Name), "-workspace-perms")
}

// controlPlaneBindingName returns the name of the RoleBinding of that Role.
func controlPlaneBindingName(cp *coderv1alpha1.CoderControlPlane) string {
	return ScopedName(controlPlaneAccount(cp), Hash(cp.Namespace, cp.Name), "")
}

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

// controlPlaneEnvironment returns the variables that only a control plane has.
func controlPlaneEnvironment(cp *coderv1alpha1.CoderControlPlane) []corev1.EnvVar {
	var env []corev1.EnvVar
	if secret, key := DatabaseSecret(cp); secret != "" {
		env = append(env, FromSecret(EnvDatabase, secret, key))
	}
	if ref := cp.Spec.ProvisionerPSKSecretRef; ref != nil {
		env = append(env, FromSecret(envProvisionerPSK, ref.Name, cmp.Or(ref.Key, "psk")))
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
		return database.SecretRef.Name, cmp.Or(database.SecretRef.Key, "url")
	case database.CloudNativePG != nil:
		return database.CloudNativePG.ClusterName + cloudNativePGSuffix, cloudNativePGKey
	}
	return "", ""
}

// DatabaseConfigured reports whether the spec configures a database for coderd: in database,
// extraEnv, envFrom or podTemplate, or as an argument.
func DatabaseConfigured(cp *coderv1alpha1.CoderControlPlane, in ControlPlaneInputs) bool {
	if secret, _ := DatabaseSecret(cp); secret != "" {
		return true
	}
	w := ControlPlane(cp, in)
	if GivesVariable(w, EnvDatabase) {
		return true
	}
	template, err := PodTemplate(w)
	if err != nil {
		template = PlainPodTemplate(w)
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
