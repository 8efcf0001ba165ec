package resources

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// EnvDatabase is the variable that holds the address of Coder's database.
const EnvDatabase = "CODER_PG_CONNECTION_URL"

const (
	envPodIP     = "KUBE_POD_IP"
	envAccessURL = "CODER_ACCESS_URL"
)

// environment is the operator's own variables, each replaced by that of the
// same name in spec.extraEnv, and then the rest of spec.extraEnv. The
// replacement stands at the place of ours, because $(KUBE_POD_IP) only sees
// variables that come before it.
func environment(cp *coderv1alpha1.CoderControlPlane, in Inputs) []corev1.EnvVar {
	return overlaid(ownEnvironment(cp, in), cp.Spec.ExtraEnv)
}

func ownEnvironment(cp *coderv1alpha1.CoderControlPlane, in Inputs) []corev1.EnvVar {
	env := []corev1.EnvVar{
		{Name: envPodIP, ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"},
		}},
		{Name: "CODER_DERP_SERVER_RELAY_URL", Value: fmt.Sprintf("http://$(%s):%d", envPodIP, containerHTTPPort)},
	}
	if ptr.Deref(cp.Spec.EnvUseClusterAccessURL, true) && !in.EnvFromNames[envAccessURL] {
		env = append(env, corev1.EnvVar{Name: envAccessURL, Value: AccessURL(cp, in)})
	}
	return append(env, tlsEnvironment(cp)...)
}

func tlsEnvironment(cp *coderv1alpha1.CoderControlPlane) []corev1.EnvVar {
	var certificates, keys []string
	for _, secret := range tlsSecrets(cp) {
		certificates = append(certificates, tlsMountPath(secret)+"/"+corev1.TLSCertKey)
		keys = append(keys, tlsMountPath(secret)+"/"+corev1.TLSPrivateKeyKey)
	}
	if len(certificates) == 0 {
		return nil
	}
	return []corev1.EnvVar{
		{Name: "CODER_TLS_ENABLE", Value: "true"},
		{Name: "CODER_TLS_ADDRESS", Value: fmt.Sprintf("0.0.0.0:%d", containerHTTPSPort)},
		{Name: "CODER_TLS_CERT_FILE", Value: strings.Join(certificates, ",")},
		{Name: "CODER_TLS_KEY_FILE", Value: strings.Join(keys, ",")},
	}
}

// overlaid is base with the variables of over put in the place of those with
// the same name, and the others of over after it.
func overlaid(base, over []corev1.EnvVar) []corev1.EnvVar {
	env := slices.Clone(base)
	for _, variable := range over {
		at := slices.IndexFunc(env, func(e corev1.EnvVar) bool { return e.Name == variable.Name })
		if at < 0 {
			env = append(env, variable)
			continue
		}
		env[at] = variable
	}
	return env
}

// DatabaseConfigured says whether the spec gives coderd the address of a
// database: in extraEnv, in envFrom, or as an argument.
func DatabaseConfigured(cp *coderv1alpha1.CoderControlPlane, in Inputs) bool {
	if in.EnvFromNames[EnvDatabase] {
		return true
	}
	for _, variable := range cp.Spec.ExtraEnv {
		if variable.Name == EnvDatabase && (variable.Value != "" || variable.ValueFrom != nil) {
			return true
		}
	}
	return slices.ContainsFunc(cp.Spec.ExtraArgs, func(argument string) bool {
		return argument == "--postgres-url" || strings.HasPrefix(argument, "--postgres-url=")
	})
}
