package resources

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

const clusterHost = "wsproxy-berlin.edge.svc.cluster.local"

func TestAddressesInsideTheCluster(t *testing.T) {
	for name, c := range map[string]struct {
		service coderv1alpha1.ServiceSpec
		tls     bool
		domain  string
		url     string
		access  string
		ports   map[string]int32
	}{
		"default":       {coderv1alpha1.ServiceSpec{Port: 80}, false, "", "http://" + clusterHost + ":80", "http://" + clusterHost, map[string]int32{"http": 80}},
		"unset":         {coderv1alpha1.ServiceSpec{}, false, "", "http://" + clusterHost + ":80", "http://" + clusterHost, map[string]int32{"http": 80}},
		"other port":    {coderv1alpha1.ServiceSpec{Port: 8000}, false, "", "http://" + clusterHost + ":8000", "http://" + clusterHost + ":8000", map[string]int32{"http": 8000}},
		"443, no TLS":   {coderv1alpha1.ServiceSpec{Port: 443}, false, "", "http://" + clusterHost + ":443", "http://" + clusterHost + ":443", map[string]int32{"http": 443}},
		"TLS on 443":    {coderv1alpha1.ServiceSpec{Port: 443}, true, "", "http://" + clusterHost + ":80", "https://" + clusterHost, map[string]int32{"https": 443, "http": 80}},
		"TLS on 80":     {coderv1alpha1.ServiceSpec{Port: 80}, true, "", "http://" + clusterHost + ":80", "https://" + clusterHost, map[string]int32{"http": 80, "https": 443}},
		"TLS elsewhere": {coderv1alpha1.ServiceSpec{Port: 8000}, true, "", "http://" + clusterHost + ":8000", "https://" + clusterHost, map[string]int32{"http": 8000, "https": 443}},
		"other domain": {
			coderv1alpha1.ServiceSpec{}, false, "corp.internal",
			"http://wsproxy-berlin.edge.svc.corp.internal:80", "http://wsproxy-berlin.edge.svc.corp.internal", map[string]int32{"http": 80},
		},
		"no Service": {coderv1alpha1.ServiceSpec{Enabled: ptr.To(false)}, true, "", "", "", map[string]int32{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := proxy()
			w.Serving.Spec.Service, w.ClusterDomain = c.service, c.domain
			if c.tls {
				w.Serving.Spec.TLS.SecretNames = []string{"web", " web ", ""}
			}
			if got := URL(w); got != c.url {
				t.Errorf("URL is %q, want %q", got, c.url)
			}
			if got := AccessURL(w); got != c.access {
				t.Errorf("access URL is %q, want %q", got, c.access)
			}
			ports := map[string]int32{}
			if service := Service(w); service != nil {
				for _, port := range service.Spec.Ports {
					ports[port.Name] = port.Port
				}
			}
			if diff := cmp.Diff(c.ports, ports); diff != "" {
				t.Errorf("ports of the Service (-want +got):\n%s", diff)
			}
		})
	}
	if got := URL(daemons()); got != "" {
		t.Errorf("a workload that serves nothing has the address %q", got)
	}
}

func ingressAt(host, wildcard, secret string) *coderv1alpha1.ExposeSpec {
	spec := &coderv1alpha1.IngressSpec{Host: host, WildcardHost: wildcard}
	if secret != "" {
		spec.TLS = &coderv1alpha1.IngressTLSSpec{SecretName: secret}
	}
	return &coderv1alpha1.ExposeSpec{Ingress: spec}
}

func gatewayAt(host, wildcard, scheme string) *coderv1alpha1.ExposeSpec {
	return &coderv1alpha1.ExposeSpec{Gateway: &coderv1alpha1.GatewaySpec{
		Host: host, WildcardHost: wildcard, Scheme: scheme, ParentRefs: []coderv1alpha1.GatewayParentReference{{Name: "public"}},
	}}
}

func TestAccessURL(t *testing.T) {
	inEnvironment := corev1.EnvVar{Name: EnvAccessURL, Value: "https://given.example.com"}
	for name, c := range map[string]struct {
		change func(*Workload)
		// The first is the access URL that AccessURL returns, and in is the one in the container.
		told, in string
	}{
		"the Service":              {func(*Workload) {}, "http://" + clusterHost, "http://" + clusterHost},
		"nobody says it":           {func(w *Workload) { w.Serving.ClusterAccessURL = false }, "", ""},
		"Ingress":                  {func(w *Workload) { w.Serving.Spec.Expose = ingressAt("a.example.com", "", "") }, "http://a.example.com", "http://a.example.com"},
		"Ingress with certificate": {func(w *Workload) { w.Serving.Spec.Expose = ingressAt("a.example.com", "", "cert") }, "https://a.example.com", "https://a.example.com"},
		"Gateway":                  {func(w *Workload) { w.Serving.Spec.Expose = gatewayAt("a.example.com", "", "") }, "https://a.example.com", "https://a.example.com"},
		"Gateway, plain":           {func(w *Workload) { w.Serving.Spec.Expose = gatewayAt("a.example.com", "", "http") }, "http://a.example.com", "http://a.example.com"},
		"exposed, and not the Service": {func(w *Workload) {
			w.Serving.Spec.Expose, w.Serving.ClusterAccessURL = gatewayAt("a.example.com", "", ""), false
		}, "https://a.example.com", "https://a.example.com"},
		"expose says nothing": {func(w *Workload) { w.Serving.Spec.Expose = &coderv1alpha1.ExposeSpec{} }, "http://" + clusterHost, "http://" + clusterHost},
		"extraEnv": {func(w *Workload) {
			w.Serving.Spec.Expose, w.Spec.ExtraEnv = ingressAt("a.example.com", "", ""), []corev1.EnvVar{inEnvironment}
		}, "https://given.example.com", "https://given.example.com"},
		"extraEnv from a Secret": {func(w *Workload) {
			w.Spec.ExtraEnv = []corev1.EnvVar{FromSecret(EnvAccessURL, "addresses", "public")}
		}, "", "from a source"},
		"extraEnv from another variable": {func(w *Workload) {
			w.Spec.ExtraEnv = []corev1.EnvVar{{Name: EnvAccessURL, Value: "https://$(HOST)"}}
		}, "", "https://$(HOST)"},
		"envFrom": {func(w *Workload) { w.EnvFromNames = map[string]bool{EnvAccessURL: true} }, "", ""},
		"podTemplate": {func(w *Workload) {
			w.Spec.PodTemplate = ours(corev1.Container{Env: []corev1.EnvVar{inEnvironment}})
		}, "https://given.example.com", "https://given.example.com"},
		"another container of podTemplate": {func(w *Workload) {
			w.Spec.PodTemplate = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
				{Name: "other", Env: []corev1.EnvVar{inEnvironment}},
			}}}
		}, "http://" + clusterHost, "http://" + clusterHost},
	} {
		t.Run(name, func(t *testing.T) {
			w := proxy()
			c.change(&w)
			if got := AccessURL(w); got != c.told {
				t.Errorf("access URL is %q, want %q", got, c.told)
			}
			if got := variable(t, w, EnvAccessURL); got != c.in {
				t.Errorf("%s is %q, want %q", EnvAccessURL, got, c.in)
			}
		})
	}
}

func TestWildcardHosts(t *testing.T) {
	for name, c := range map[string]struct{ host, routed string }{
		"below the host":      {"*.coder.example.com", "*.coder.example.com"},
		"with a suffix":       {"*-apps.example.com", "*.example.com"},
		"with a long suffix":  {"*--a-b.apps.example.com", "*.apps.example.com"},
		"of a short domain":   {"*-x.com", "*.com"},
		"not a wildcard host": {"coder.example.com", "coder.example.com"},
	} {
		for way, expose := range map[string]*coderv1alpha1.ExposeSpec{
			"Ingress": ingressAt("a.example.com", c.host, ""), "Gateway": gatewayAt("a.example.com", c.host, ""),
		} {
			t.Run(name+"/"+way, func(t *testing.T) {
				w := proxy()
				w.Serving.Spec.Expose = expose
				if got := variable(t, w, EnvWildcardAccessURL); got != c.host {
					t.Errorf("%s is %q, want %q as it is written", EnvWildcardAccessURL, got, c.host)
				}
				var hosts []string
				if ingress := Ingress(w); ingress != nil {
					for _, rule := range ingress.Spec.Rules {
						hosts = append(hosts, rule.Host)
					}
				}
				if route := HTTPRoute(w); route != nil {
					for _, host := range route.Spec.Hostnames {
						hosts = append(hosts, string(host))
					}
				}
				if diff := cmp.Diff([]string{"a.example.com", c.routed}, hosts); diff != "" {
					t.Errorf("hosts (-want +got):\n%s", diff)
				}
			})
		}
	}
	w := proxy()
	w.Serving.Spec.Expose, w.EnvFromNames = ingressAt("a.example.com", "*.example.com", ""), map[string]bool{EnvWildcardAccessURL: true}
	if got := variable(t, w, EnvWildcardAccessURL); got != "" {
		t.Errorf("%q hides what envFrom says", got)
	}
}

// variable returns the value of a variable in Coder's container.
func variable(t *testing.T, w Workload, name string) string {
	t.Helper()
	template, err := PodTemplate(w)
	if err != nil {
		t.Fatal(err)
	}
	found := ""
	for _, v := range containerNamed(template.Spec.Containers, w.Container).Env {
		if v.Name != name {
			continue
		}
		if found != "" {
			t.Errorf("%s is there twice", name)
		}
		if found = v.Value; v.ValueFrom != nil {
			found = "from a source"
		}
	}
	return found
}
