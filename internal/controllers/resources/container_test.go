package resources

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

func TestCommandLine(t *testing.T) {
	type line struct{ Command, Args []string }
	for name, c := range map[string]struct {
		spec coderv1alpha1.WorkloadSpec
		want line
	}{
		"the image's entry point": {coderv1alpha1.WorkloadSpec{}, line{nil, []string{"--http"}}},
		"more arguments":          {coderv1alpha1.WorkloadSpec{ExtraArgs: []string{"--more"}}, line{nil, []string{"--http", "--more"}}},
		"other arguments":         {coderv1alpha1.WorkloadSpec{Args: []string{"--mine"}}, line{nil, []string{"--mine"}}},
		"other arguments and more": {
			coderv1alpha1.WorkloadSpec{Args: []string{"--mine"}, ExtraArgs: []string{"--more"}}, line{nil, []string{"--mine", "--more"}},
		},
		"another entry point": {
			coderv1alpha1.WorkloadSpec{Command: []string{"/bin/coder"}, ExtraArgs: []string{"--more"}},
			line{[]string{"/bin/coder"}, []string{"server", "--http", "--more"}},
		},
		"all of it": {
			coderv1alpha1.WorkloadSpec{Command: []string{"/bin/sh"}, Args: []string{"-c", "coder server"}},
			line{[]string{"/bin/sh"}, []string{"-c", "coder server"}},
		},
	} {
		w := proxy()
		w.Command, w.Subcommand, w.Args, w.Spec = nil, []string{"server"}, []string{"--http"}, &c.spec
		got := container(w, nil)
		if diff := cmp.Diff(c.want, line{got.Command, got.Args}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestMetricsArePortsOnlyWhereTheyAreServed(t *testing.T) {
	enable := []corev1.EnvVar{{Name: EnvPrometheusEnable, Value: "true"}}
	for name, c := range map[string]struct {
		spec    coderv1alpha1.WorkloadSpec
		port    bool
		service bool
	}{
		"off":           {},
		"metrics":       {coderv1alpha1.WorkloadSpec{Metrics: coderv1alpha1.MetricsSpec{Enabled: true}}, true, true},
		"extraEnv":      {coderv1alpha1.WorkloadSpec{ExtraEnv: enable}, true, false},
		"extraEnv, off": {coderv1alpha1.WorkloadSpec{ExtraEnv: []corev1.EnvVar{{Name: EnvPrometheusEnable, Value: "false"}}}, false, false},
		"monitor alone": {coderv1alpha1.WorkloadSpec{Metrics: coderv1alpha1.MetricsSpec{ServiceMonitor: &coderv1alpha1.ServiceMonitorSpec{}}}, false, false},
	} {
		w := daemons()
		w.Spec = &c.spec
		ports := containerPorts(w)
		if got := len(ports) == 1 && ports[0].Name == "prometheus-http" && ports[0].ContainerPort == 2112; got != c.port {
			t.Errorf("%s: ports %v, want the port of the metrics: %v", name, ports, c.port)
		}
		if got := MetricsService(w) != nil; got != c.service {
			t.Errorf("%s: there is a Service of the metrics: %v, want %v", name, got, c.service)
		}
		if monitor := ServiceMonitor(w); monitor != nil {
			t.Errorf("%s: there is a ServiceMonitor that nobody asked for", name)
		}
	}
}

// A variable that the operator sets for convenience is omitted or replaced if the spec sets it in
// any of three ways.
func TestWhereMetricsAreServedIsLeftToWhoeverSaysIt(t *testing.T) {
	for _, name := range []string{EnvPrometheusAddress, EnvProfilerAddress} {
		w := proxy()
		if got := variable(t, w, name); got == "" {
			t.Errorf("%s is not set", name)
		}
		w.EnvFromNames = map[string]bool{name: true}
		if got := variable(t, w, name); got != "" {
			t.Errorf("%s is %q and hides that of envFrom", name, got)
		}
		w.Spec.ExtraEnv = []corev1.EnvVar{{Name: name, Value: "127.0.0.1:1"}}
		if got := variable(t, w, name); got != "127.0.0.1:1" {
			t.Errorf("%s is %q, want that of extraEnv", name, got)
		}
		if !GivesVariable(w, name) || GivesVariable(proxy(), name) {
			t.Errorf("GivesVariable does not know whether the spec gives %s", name)
		}
	}
}

func TestCertificatesThatShareAName(t *testing.T) {
	w := proxy()
	w.Spec.Certs.Secrets = []coderv1alpha1.CertSecretSelector{
		{Name: "a", Key: "b.crt"}, {Name: "a", Key: "c"}, {Name: "a-b", Key: "x"}, {Name: "a", Key: "c"},
	}
	all, mounts := volumes(w)
	var names, paths []string
	for _, v := range all {
		names = append(names, v.Name)
	}
	for _, m := range mounts {
		paths = append(paths, m.Name+" "+m.SubPath+" "+m.MountPath)
	}
	if diff := cmp.Diff([]string{"ca-cert-a", "ca-cert-a-b"}, names); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"ca-cert-a b.crt /etc/ssl/certs/a-b.crt", "ca-cert-a c /etc/ssl/certs/a-c.crt", "ca-cert-a-b x /etc/ssl/certs/a-b-2.crt",
	}, paths); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
}
