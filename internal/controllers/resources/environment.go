package resources

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Environment variables that more than one package uses.
const (
	EnvAccessURL         = "CODER_ACCESS_URL"
	EnvWildcardAccessURL = "CODER_WILDCARD_ACCESS_URL"
	EnvPrometheusEnable  = "CODER_PROMETHEUS_ENABLE"
	EnvPrometheusAddress = "CODER_PROMETHEUS_ADDRESS"
	EnvProfilerAddress   = "CODER_PPROF_ADDRESS"

	envPodIP = "KUBE_POD_IP"
)

// environment returns the variables that follow from the fields, followed by those of
// spec.extraEnv. A variable of spec.extraEnv with the same name replaces the operator's variable in
// its position, because a reference such as $(KUBE_POD_IP) only resolves variables that come before
// it.
func environment(w Workload) []corev1.EnvVar {
	own := append(servingEnvironment(w), w.Env...)
	own = append(own, clusterHostEnvironment(w)...)
	if w.Spec.Metrics.Enabled {
		own = append(own, corev1.EnvVar{Name: EnvPrometheusEnable, Value: "true"})
	}
	// Metrics and profiles, once they are enabled, are served on all addresses, not only on localhost.
	own = append(own, unlessGiven(w, EnvPrometheusAddress, fmt.Sprintf("0.0.0.0:%d", metricsPort))...)
	if w.Serving != nil {
		own = append(own, unlessGiven(w, EnvProfilerAddress, "0.0.0.0:6060")...)
	}
	return Overlaid(own, w.Spec.ExtraEnv)
}

// clusterHostEnvironment returns the variable with the address at which other replicas reach a pod,
// as Coder's chart sets it since 2.35. Older versions ignore it. Running pods without it get it
// with the next image. Without it Coder uses the host of CODER_DERP_SERVER_RELAY_URL.
func clusterHostEnvironment(w Workload) []corev1.EnvVar {
	if w.Serving == nil || w.Serving.ClusterHost == "" {
		return nil
	}
	running := runningContainer(w)
	if running != nil && !slices.ContainsFunc(running.Env, func(v corev1.EnvVar) bool { return v.Name == w.Serving.ClusterHost }) {
		return nil
	}
	return unlessGiven(w, w.Serving.ClusterHost, fmt.Sprintf("$(%s)", envPodIP))
}

func servingEnvironment(w Workload) []corev1.EnvVar {
	if w.Serving == nil {
		return nil
	}
	// Other replicas reach this one there. An IPv6 address needs brackets in a URL, and Coder 2.34 does not start without
	// them. An IPv4 address must not have brackets.
	relay := fmt.Sprintf("http://$(%s):%d", envPodIP, w.Serving.HTTPPort)
	if w.PodIPv6 {
		relay = fmt.Sprintf("http://[$(%s)]:%d", envPodIP, w.Serving.HTTPPort)
	}
	env := []corev1.EnvVar{
		{Name: envPodIP, ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"},
		}},
		{Name: "CODER_DERP_SERVER_RELAY_URL", Value: relay},
	}
	env = append(env, unlessGiven(w, EnvAccessURL, derivedAccessURL(w))...)
	switch expose := w.Serving.Spec.Expose; {
	case expose == nil:
	case expose.Ingress != nil:
		env = append(env, unlessGiven(w, EnvWildcardAccessURL, expose.Ingress.WildcardHost)...)
	case expose.Gateway != nil:
		env = append(env, unlessGiven(w, EnvWildcardAccessURL, expose.Gateway.WildcardHost)...)
	}
	var certificates, keys []string
	for _, secret := range tlsSecrets(w) {
		certificates = append(certificates, tlsMountPath(secret)+"/"+corev1.TLSCertKey)
		keys = append(keys, tlsMountPath(secret)+"/"+corev1.TLSPrivateKeyKey)
	}
	if len(certificates) == 0 {
		return env
	}
	return append(env,
		corev1.EnvVar{Name: "CODER_TLS_ENABLE", Value: "true"},
		corev1.EnvVar{Name: "CODER_TLS_ADDRESS", Value: fmt.Sprintf("0.0.0.0:%d", w.Serving.HTTPSPort)},
		corev1.EnvVar{Name: "CODER_TLS_CERT_FILE", Value: strings.Join(certificates, ",")},
		corev1.EnvVar{Name: "CODER_TLS_KEY_FILE", Value: strings.Join(keys, ",")},
	)
}

// unlessGiven returns a variable that the operator sets for convenience. It returns nothing if
// spec.envFrom provides the variable, because a variable of the container would hide it.
func unlessGiven(w Workload, name, value string) []corev1.EnvVar {
	if value == "" || w.EnvFromNames[name] {
		return nil
	}
	return []corev1.EnvVar{{Name: name, Value: value}}
}

// NamesNotSet returns the names of variables that unlessGiven can set and that the container of the
// current Deployment does not have. It returns nil if there is no Deployment.
func NamesNotSet(w Workload) map[string]bool {
	if w.Live == nil {
		return nil
	}
	names := map[string]bool{EnvAccessURL: true, EnvWildcardAccessURL: true, EnvPrometheusAddress: true, EnvProfilerAddress: true}
	if c := containerNamed(w.Live.Spec.Containers, PodContainer(w)); c != nil {
		for _, variable := range c.Env {
			delete(names, variable.Name)
		}
	}
	return names
}

// givenVariable reports whether the spec sets a variable, and returns its value. It returns an empty
// string if the value depends on another object or variable.
func givenVariable(w Workload, name string) (string, bool) {
	variable := specVariable(w, name)
	if variable == nil || variable.ValueFrom != nil || strings.Contains(variable.Value, "$(") {
		return "", variable != nil || w.EnvFromNames[name]
	}
	return variable.Value, true
}

// GivesVariable reports whether podTemplate, extraEnv or envFrom of the spec sets a non-empty
// variable of the container.
func GivesVariable(w Workload, name string) bool {
	if variable := specVariable(w, name); variable != nil {
		return variable.Value != "" || variable.ValueFrom != nil
	}
	return w.EnvFromNames[name]
}

// specVariable returns a variable of the container that spec.podTemplate or spec.extraEnv sets, or
// nil. spec.podTemplate has precedence, because it is merged over the container.
func specVariable(w Workload, name string) *corev1.EnvVar {
	env := w.Spec.ExtraEnv
	if c := givenContainer(w); c != nil {
		env = slices.Concat(c.Env, env)
	}
	at := slices.IndexFunc(env, func(e corev1.EnvVar) bool { return e.Name == name })
	if at < 0 {
		return nil
	}
	return &env[at]
}

// Overlaid returns base with each variable replaced by the variable of over with the same name,
// followed by the other variables of over.
func Overlaid(base, over []corev1.EnvVar) []corev1.EnvVar {
	env := make([]corev1.EnvVar, len(base), len(base)+len(over))
	copy(env, base)
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

// FromSecret returns a variable whose value is a key of a Secret.
func FromSecret(variable, secret, key string) corev1.EnvVar {
	return corev1.EnvVar{Name: variable, ValueFrom: &corev1.EnvVarSource{
		SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: key,
		},
	}}
}
