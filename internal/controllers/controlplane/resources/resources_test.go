package resources

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	workloadresources "github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

// The hashes are literals, because a control plane of the public predecessor has objects with these
// names.
func TestNamesAreThoseOfThePredecessor(t *testing.T) {
	cp := minimal()
	long := minimal()
	long.Spec.ServiceAccount.Name = strings.Repeat("s", 253)
	for name, c := range map[string]struct{ got, want string }{
		"role":               {WorkspaceRoleName(cp), "coder-84e8e53b-workspace-perms"},
		"role binding":       {WorkspaceRoleBindingName(cp), "coder-84e8e53b"},
		"role, long account": {WorkspaceRoleName(long), strings.Repeat("s", 228) + "-84e8e53b-workspace-perms"},
		"admin job":          {AdminJobName(cp), "coder-create-admin"},
	} {
		if c.got != c.want {
			t.Errorf("%s is %q, want %q", name, c.got, c.want)
		}
		if len(c.got) > 253 {
			t.Errorf("%s has %d characters", name, len(c.got))
		}
	}
	cp.Name = strings.Repeat("n", 63)
	if name := AdminJobName(cp); len(name) > 63 || !strings.HasSuffix(name, adminJobSuffix) {
		t.Errorf("the name of the admin job is %q", name)
	}
}

func TestURLs(t *testing.T) {
	for name, c := range map[string]struct {
		port      int32
		tls       bool
		domain    string
		url       string
		accessURL string
		ports     map[string]int32
	}{
		"default":       {80, false, "", "http://coder.coder.svc.cluster.local:80", "http://coder.coder.svc.cluster.local", map[string]int32{"http": 80}},
		"unset":         {0, false, "", "http://coder.coder.svc.cluster.local:80", "http://coder.coder.svc.cluster.local", map[string]int32{"http": 80}},
		"other port":    {8000, false, "", "http://coder.coder.svc.cluster.local:8000", "http://coder.coder.svc.cluster.local:8000", map[string]int32{"http": 8000}},
		"TLS on 443":    {443, true, "", "http://coder.coder.svc.cluster.local:80", "https://coder.coder.svc.cluster.local", map[string]int32{"https": 443, "http": 80}},
		"TLS on 80":     {80, true, "", "http://coder.coder.svc.cluster.local:80", "https://coder.coder.svc.cluster.local", map[string]int32{"https": 443, "http": 80}},
		"TLS elsewhere": {8000, true, "", "http://coder.coder.svc.cluster.local:8000", "https://coder.coder.svc.cluster.local", map[string]int32{"https": 443, "http": 8000}},
		"443, no TLS":   {443, false, "", "http://coder.coder.svc.cluster.local:443", "http://coder.coder.svc.cluster.local:443", map[string]int32{"http": 443}},
		"other domain":  {80, false, "corp.internal", "http://coder.coder.svc.corp.internal:80", "http://coder.coder.svc.corp.internal", map[string]int32{"http": 80}},
	} {
		t.Run(name, func(t *testing.T) {
			cp := minimal()
			cp.Spec.Service.Port = c.port
			if c.tls {
				cp.Spec.TLS.SecretNames = []string{"web"}
			}
			in := Inputs{ClusterDomain: c.domain}
			if got := URL(cp, in); got != c.url {
				t.Errorf("URL is %q, want %q", got, c.url)
			}
			if got := AccessURL(cp, in); got != c.accessURL {
				t.Errorf("AccessURL is %q, want %q", got, c.accessURL)
			}
			ports := map[string]int32{}
			for _, port := range Service(cp).Spec.Ports {
				ports[port.Name] = port.Port
			}
			if diff := cmp.Diff(c.ports, ports); diff != "" {
				t.Errorf("ports of the Service (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAccessURLIsLeftToWhoeverSetsIt(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*coderv1alpha1.CoderControlPlane, *Inputs)
		want   []string
	}{
		"nobody sets it": {func(*coderv1alpha1.CoderControlPlane, *Inputs) {}, []string{"http://coder.coder.svc.cluster.local"}},
		"switched off": {func(cp *coderv1alpha1.CoderControlPlane, _ *Inputs) {
			cp.Spec.EnvUseClusterAccessURL = ptr.To(false)
		}, nil},
		"extraEnv": {func(cp *coderv1alpha1.CoderControlPlane, _ *Inputs) {
			cp.Spec.ExtraEnv = append(cp.Spec.ExtraEnv, corev1.EnvVar{Name: workloadresources.EnvAccessURL, Value: "https://coder.example.com"})
		}, []string{"https://coder.example.com"}},
		"envFrom": {func(_ *coderv1alpha1.CoderControlPlane, in *Inputs) {
			in.EnvFromNames = map[string]bool{workloadresources.EnvAccessURL: true}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cp, in := minimal(), Inputs{}
			c.change(cp, &in)
			var got []string
			for _, variable := range coderd(deployment(t, cp, in).Spec.Template.Spec).Env {
				if variable.Name == workloadresources.EnvAccessURL {
					got = append(got, variable.Value)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("CODER_ACCESS_URL (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDatabaseConfigured(t *testing.T) {
	with := func(change func(*coderv1alpha1.CoderControlPlane)) *coderv1alpha1.CoderControlPlane {
		cp := minimal()
		cp.Spec.ExtraEnv = nil
		change(cp)
		return cp
	}
	inTemplate := func(c corev1.Container) *corev1.PodTemplateSpec {
		c.Name = ContainerName
		return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}
	}
	none := with(func(*coderv1alpha1.CoderControlPlane) {})
	for name, c := range map[string]struct {
		cp   *coderv1alpha1.CoderControlPlane
		in   Inputs
		want bool
	}{
		"from a Secret": {cp: minimal(), want: true},
		"none":          {cp: none},
		"empty value": {cp: with(func(cp *coderv1alpha1.CoderControlPlane) {
			cp.Spec.ExtraEnv = []corev1.EnvVar{{Name: EnvDatabase}}
		})},
		"envFrom": {cp: none, in: Inputs{EnvFromNames: map[string]bool{EnvDatabase: true}}, want: true},
		"argument": {cp: with(func(cp *coderv1alpha1.CoderControlPlane) {
			cp.Spec.ExtraArgs = []string{"--postgres-url=postgres://db"}
		}), want: true},
		"two arguments": {cp: with(func(cp *coderv1alpha1.CoderControlPlane) {
			cp.Spec.Args = []string{"--postgres-url", "postgres://db"}
		}), want: true},
		"another argument": {cp: with(func(cp *coderv1alpha1.CoderControlPlane) {
			cp.Spec.ExtraArgs = []string{"--postgres-url-of-something=postgres://db"}
		})},
		"spec.database": {cp: with(func(cp *coderv1alpha1.CoderControlPlane) {
			cp.Spec.Database = &coderv1alpha1.DatabaseSpec{SecretRef: &coderv1alpha1.DatabaseSecretReference{Name: "db"}}
		}), want: true},
		"CloudNativePG": {cp: with(func(cp *coderv1alpha1.CoderControlPlane) {
			cp.Spec.Database = &coderv1alpha1.DatabaseSpec{CloudNativePG: &coderv1alpha1.CloudNativePGReference{ClusterName: "db"}}
		}), want: true},
		"empty spec.database": {cp: with(func(cp *coderv1alpha1.CoderControlPlane) {
			cp.Spec.Database = &coderv1alpha1.DatabaseSpec{}
		})},
		"podTemplate": {cp: with(func(cp *coderv1alpha1.CoderControlPlane) {
			cp.Spec.PodTemplate = inTemplate(corev1.Container{Env: []corev1.EnvVar{{Name: EnvDatabase, Value: "postgres://db"}}})
		}), want: true},
		"argument of podTemplate": {cp: with(func(cp *coderv1alpha1.CoderControlPlane) {
			cp.Spec.PodTemplate = inTemplate(corev1.Container{Args: []string{"--postgres-url=postgres://db"}})
		}), want: true},
		"podTemplate that does not fit": {cp: with(func(cp *coderv1alpha1.CoderControlPlane) {
			cp.Spec.PodTemplate = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{ServiceAccountName: "other"}}
		})},
	} {
		if got := DatabaseConfigured(c.cp, c.in); got != c.want {
			t.Errorf("%s: DatabaseConfigured is %v, want %v", name, got, c.want)
		}
	}
}

func TestDatabaseSecret(t *testing.T) {
	for name, c := range map[string]struct {
		spec *coderv1alpha1.DatabaseSpec
		want [2]string
	}{
		"none":          {nil, [2]string{}},
		"a Secret":      {&coderv1alpha1.DatabaseSpec{SecretRef: &coderv1alpha1.DatabaseSecretReference{Name: "db", Key: "dsn"}}, [2]string{"db", "dsn"}},
		"the usual key": {&coderv1alpha1.DatabaseSpec{SecretRef: &coderv1alpha1.DatabaseSecretReference{Name: "db"}}, [2]string{"db", "url"}},
		"CloudNativePG": {&coderv1alpha1.DatabaseSpec{CloudNativePG: &coderv1alpha1.CloudNativePGReference{ClusterName: "db"}}, [2]string{"db-app", "uri"}},
	} {
		cp := minimal()
		cp.Spec.Database = c.spec
		if secret, key := DatabaseSecret(cp); [2]string{secret, key} != c.want {
			t.Errorf("%s: the database is in key %q of Secret %q, want %v", name, key, secret, c.want)
		}
	}
}

// The account is created in coderd's database, however that is configured.
func TestAdminJobUsesTheDatabaseOfCoderd(t *testing.T) {
	for name, c := range map[string]struct {
		spec    coderv1alpha1.WorkloadSpec
		command []string
		args    []string
	}{
		"environment": {coderv1alpha1.WorkloadSpec{ExtraArgs: []string{"--verbose"}}, []string{"/opt/coder", "server", "create-admin-user"}, nil},
		"argument": {
			coderv1alpha1.WorkloadSpec{ExtraArgs: []string{"--verbose", "--postgres-url=postgres://db", "--log-human=/dev/null"}},
			[]string{"/opt/coder", "server", "create-admin-user"}, []string{"--postgres-url=postgres://db"},
		},
		"two arguments": {
			coderv1alpha1.WorkloadSpec{ExtraArgs: []string{"--postgres-url", "postgres://db", "--verbose", "--postgres-connection-auth=awsiamrds"}},
			[]string{"/opt/coder", "server", "create-admin-user"}, []string{"--postgres-url", "postgres://db", "--postgres-connection-auth=awsiamrds"},
		},
		"another entry point": {
			coderv1alpha1.WorkloadSpec{Command: []string{"/bin/coder"}, ExtraArgs: []string{"--postgres-url=postgres://db"}},
			[]string{"/bin/coder", "server", "create-admin-user"}, []string{"--postgres-url=postgres://db"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cp := minimal()
			cp.Spec.WorkloadSpec = c.spec
			container := AdminJob(cp, Inputs{}, "credentials").Spec.Template.Spec.Containers[0]
			if diff := cmp.Diff(c.command, container.Command); diff != "" {
				t.Errorf("command (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.args, container.Args); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
		})
	}
}

// A sidecar never ends, so the Job would not end either.
func TestAdminJobHasNoSidecars(t *testing.T) {
	pod := AdminJob(exposed(), Inputs{}, "credentials").Spec.Template.Spec
	if len(pod.Containers) != 1 || pod.Containers[0].Name != ContainerName {
		t.Errorf("containers are %v", pod.Containers)
	}
	if len(pod.InitContainers) != 1 {
		t.Errorf("the init containers are gone: %v", pod.InitContainers)
	}
	if c := pod.Containers[0]; c.Lifecycle != nil || c.ReadinessProbe != nil || len(c.Ports) != 0 {
		t.Errorf("the container serves: %+v", c)
	}
	broken := exposed()
	broken.Spec.PodTemplate.Spec.ServiceAccountName = "other"
	if got := AdminJob(broken, Inputs{}, "credentials").Spec.Template.Spec.ServiceAccountName; got != "coder" {
		t.Errorf("with a template that does not fit the Job runs as %q", got)
	}
}

// The Service must not route requests to the pod of the admin Job.
func TestTheServiceDoesNotSelectTheAdminJob(t *testing.T) {
	cp := minimal()
	pod := AdminJob(cp, Inputs{}, "x").Spec.Template.Labels
	selected := true
	for key, value := range Service(cp).Spec.Selector {
		selected = selected && pod[key] == value
	}
	if selected {
		t.Errorf("the selector of the Service matches the labels of the Job's pods: %v", pod)
	}
}

func TestBuildersShareNothingWithTheSpec(t *testing.T) {
	cp := full()
	before := cp.DeepCopy()
	d := deployment(t, cp, Inputs{})
	d.Labels["changed"] = "yes"
	d.Spec.Template.Spec.Containers[0].Env[0].Value = "changed"
	d.Spec.Template.Spec.Containers[0].Args = append(d.Spec.Template.Spec.Containers[0].Args[:1], "changed")
	if diff := cmp.Diff(before, cp); diff != "" {
		t.Errorf("a change to the Deployment changed the control plane:\n%s", diff)
	}
}

func TestWorkspaceNamespaces(t *testing.T) {
	cp := full()
	if diff := cmp.Diff([]string{"platform", "work-a"}, WorkspaceNamespaces(cp)); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
	cp.Spec.RBAC.WorkspacePerms = ptr.To(false)
	if got := WorkspaceNamespaces(cp); got != nil {
		t.Errorf("namespaces %v, want none", got)
	}
	cp.Spec.ServiceAccount.DisableCreate = true
	if ServiceAccount(cp) != nil {
		t.Error("a ServiceAccount is made although the spec uses one that exists")
	}
}
