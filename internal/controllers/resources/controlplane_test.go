package resources

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// minimalControlPlane returns a control plane with only the API server's defaults and a database.
func minimalControlPlane() *coderv1alpha1.CoderControlPlane {
	return &coderv1alpha1.CoderControlPlane{
		ObjectMeta: metav1.ObjectMeta{Name: "coder", Namespace: "coder", UID: "11111111-2222-3333-4444-555555555555"},
		Spec: coderv1alpha1.CoderControlPlaneSpec{
			Image: "ghcr.io/coder/coder:v2.30.0",
			WorkloadSpec: coderv1alpha1.WorkloadSpec{
				Replicas: ptr.To[int32](1),
				ExtraEnv: []corev1.EnvVar{FromSecret(coderv1alpha1.EnvDatabase, "coder-db", "url")},
			},
			ServingSpec: coderv1alpha1.ServingSpec{
				Service: coderv1alpha1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Port: 80},
			},
		},
	}
}

// fullControlPlane returns a control plane that uses every field that affects the children.
func fullControlPlane() *coderv1alpha1.CoderControlPlane {
	cp := minimalControlPlane()
	cp.Name, cp.Namespace = "team-a", "platform"
	spec := &cp.Spec
	spec.Replicas = ptr.To[int32](2)
	spec.ImagePullPolicy = corev1.PullAlways
	spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
	spec.Service = coderv1alpha1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, Port: 443, Annotations: map[string]string{"lb.example.com/internal": "true"},
	}
	spec.ExtraArgs = []string{"--verbose"}
	spec.ExtraEnv = append(spec.ExtraEnv, corev1.EnvVar{Name: "KUBE_POD_IP", Value: "10.0.0.1"}, corev1.EnvVar{Name: "CODER_VERBOSE", Value: "1"})
	spec.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "more"}}}}
	spec.ServiceAccount = coderv1alpha1.ServiceAccountSpec{
		Name: "coder-sa", Annotations: map[string]string{"iam.example.com/role": "coder"}, Labels: map[string]string{"team": "a"},
	}
	spec.RBAC = coderv1alpha1.RBACSpec{
		EnableDeployments:   ptr.To(false),
		ExtraRules:          []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}},
		WorkspaceNamespaces: []string{"work-a", "platform", "work-a"},
	}
	spec.Resources = &corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("1Gi")},
	}
	spec.PodSecurityContext = &corev1.PodSecurityContext{FSGroup: ptr.To[int64](1000)}
	spec.SecurityContext = &corev1.SecurityContext{ReadOnlyRootFilesystem: ptr.To(true)}
	spec.TLS.SecretNames = []string{"web-tls", "wild.example.com"}
	spec.Certs.Secrets = []coderv1alpha1.CertSecretSelector{
		{Name: "corp-ca", Key: "root.pem"}, {Name: "corp-ca", Key: "issuing.pem"}, {Name: "db-ca", Key: "ca.crt"}, {Name: "db-ca", Key: "ca.crt"},
	}
	spec.ReadinessProbe = coderv1alpha1.ProbeSpec{Enabled: ptr.To(true), InitialDelaySeconds: 5, PeriodSeconds: ptr.To[int32](3)}
	spec.LivenessProbe = coderv1alpha1.ProbeSpec{Enabled: ptr.To(true), FailureThreshold: ptr.To[int32](10)}
	spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	spec.VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/tmp"}}
	spec.NodeSelector = map[string]string{"pool": "system"}
	spec.Tolerations = []corev1.Toleration{{Key: "system", Operator: corev1.TolerationOpExists}}
	spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{
			LabelSelector: &metav1.LabelSelector{MatchLabels: coderv1alpha1.ControlPlaneLabels(cp.Name)}, TopologyKey: "kubernetes.io/hostname",
		}}},
	}}
	spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: "topology.kubernetes.io/zone", WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector: &metav1.LabelSelector{MatchLabels: coderv1alpha1.ControlPlaneLabels(cp.Name)},
	}}
	return cp
}

// exposedControlPlane returns a control plane with the fields that the predecessor did not have.
func exposedControlPlane() *coderv1alpha1.CoderControlPlane {
	cp := minimalControlPlane()
	cp.Spec.ExtraEnv = nil
	cp.Spec.ExtraArgs = []string{"--postgres-connection-auth", "awsiamrds", "--verbose"}
	cp.Spec.Database = &coderv1alpha1.DatabaseSpec{CloudNativePG: &coderv1alpha1.CloudNativePGReference{ClusterName: "coder-db"}}
	cp.Spec.ProvisionerPSKSecretRef = &coderv1alpha1.PSKSecretReference{Name: "psk", Key: "psk"}
	cp.Spec.Metrics.Enabled = true
	cp.Spec.Expose = &coderv1alpha1.ExposeSpec{Ingress: &coderv1alpha1.IngressSpec{
		Host: "coder.example.com", WildcardHost: "*-apps.example.com", TLS: &coderv1alpha1.IngressTLSSpec{SecretName: "coder-tls"},
	}}
	cp.Spec.PodTemplate = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		PriorityClassName: "important",
		InitContainers:    []corev1.Container{{Name: "sql-proxy", Image: "sql-proxy:1", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}},
		Containers: []corev1.Container{
			{Name: ControlPlaneContainer, Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}}}},
			{Name: "log-shipper", Image: "log-shipper:1"},
		},
	}}
	return cp
}

func plainControlPlane(cp *coderv1alpha1.CoderControlPlane) Workload {
	return ControlPlane(cp, Cluster{})
}

func TestGoldenControlPlane(t *testing.T) {
	files := map[string]any{}
	for name, cp := range map[string]*coderv1alpha1.CoderControlPlane{
		"minimal": minimalControlPlane(), "full": fullControlPlane(), "exposed": exposedControlPlane(),
	} {
		w, namespace := plainControlPlane(cp), cp.Namespace
		if n := cp.Spec.RBAC.WorkspaceNamespaces; len(n) > 0 {
			namespace = n[0]
		}
		withNames := w
		withNames.EnvFromNames = map[string]bool{"SOMETHING": true}
		files[name+"-deployment"] = deployment(t, withNames)
		files[name+"-service"] = Service(w)
		files[name+"-serviceaccount"] = ServiceAccount(w)
		files[name+"-role"] = WorkspaceRole(w, namespace)
		files[name+"-rolebinding"] = WorkspaceRoleBinding(w, namespace)
		files[name+"-adminjob"] = AdminJob(cp, withNames, cp.Name+"-operator-credentials")
	}
	compareGoldens(t, "controlplane", files)
}

// The hashes are literals, because a control plane of the public predecessor has objects with these
// names.
func TestNamesAreThoseOfThePredecessor(t *testing.T) {
	cp := minimalControlPlane()
	long := minimalControlPlane()
	long.Spec.ServiceAccount.Name = strings.Repeat("s", 253)
	for name, c := range map[string]struct{ got, want string }{
		"role":               {plainControlPlane(cp).Rights.RoleName, "coder-84e8e53b-workspace-perms"},
		"role binding":       {plainControlPlane(cp).Rights.BindingName, "coder-84e8e53b"},
		"role, long account": {plainControlPlane(long).Rights.RoleName, strings.Repeat("s", 228) + "-84e8e53b-workspace-perms"},
		"admin job":          {AdminJob(cp, plainControlPlane(cp), "x").Name, "coder-create-admin"},
	} {
		if c.got != c.want {
			t.Errorf("%s is %q, want %q", name, c.got, c.want)
		}
		if len(c.got) > 253 {
			t.Errorf("%s has %d characters", name, len(c.got))
		}
	}
	cp.Name = strings.Repeat("n", 63)
	if name := AdminJob(cp, plainControlPlane(cp), "x").Name; len(name) > 63 || !strings.HasSuffix(name, adminJobSuffix) {
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
			cp := minimalControlPlane()
			cp.Spec.Service.Port = c.port
			if c.tls {
				cp.Spec.TLS.SecretNames = []string{"web"}
			}
			in := Cluster{ClusterDomain: c.domain}
			if got := URL(ControlPlane(cp, in)); got != c.url {
				t.Errorf("URL is %q, want %q", got, c.url)
			}
			if got := AccessURL(ControlPlane(cp, in)); got != c.accessURL {
				t.Errorf("AccessURL is %q, want %q", got, c.accessURL)
			}
			ports := map[string]int32{}
			for _, port := range Service(plainControlPlane(cp)).Spec.Ports {
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
		change func(*coderv1alpha1.CoderControlPlane)
		from   map[string]bool
		want   []string
	}{
		"nobody sets it": {func(*coderv1alpha1.CoderControlPlane) {}, nil, []string{"http://coder.coder.svc.cluster.local"}},
		"switched off": {func(cp *coderv1alpha1.CoderControlPlane) {
			cp.Spec.EnvUseClusterAccessURL = ptr.To(false)
		}, nil, nil},
		"extraEnv": {func(cp *coderv1alpha1.CoderControlPlane) {
			cp.Spec.ExtraEnv = append(cp.Spec.ExtraEnv, corev1.EnvVar{Name: EnvAccessURL, Value: "https://coder.example.com"})
		}, nil, []string{"https://coder.example.com"}},
		"envFrom": {func(*coderv1alpha1.CoderControlPlane) {}, map[string]bool{EnvAccessURL: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cp := minimalControlPlane()
			c.change(cp)
			w := plainControlPlane(cp)
			w.EnvFromNames = c.from
			var got []string
			for _, variable := range coderd(deployment(t, w).Spec.Template.Spec).Env {
				if variable.Name == EnvAccessURL {
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
		cp := minimalControlPlane()
		cp.Spec.ExtraEnv = nil
		change(cp)
		return cp
	}
	inTemplate := func(c corev1.Container) *corev1.PodTemplateSpec {
		c.Name = ControlPlaneContainer
		return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}
	}
	none := with(func(*coderv1alpha1.CoderControlPlane) {})
	for name, c := range map[string]struct {
		cp   *coderv1alpha1.CoderControlPlane
		from map[string]bool
		want bool
	}{
		"from a Secret": {cp: minimalControlPlane(), want: true},
		"none":          {cp: none},
		"empty value": {cp: with(func(cp *coderv1alpha1.CoderControlPlane) {
			cp.Spec.ExtraEnv = []corev1.EnvVar{{Name: coderv1alpha1.EnvDatabase}}
		})},
		"envFrom": {cp: none, from: map[string]bool{coderv1alpha1.EnvDatabase: true}, want: true},
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
			cp.Spec.PodTemplate = inTemplate(corev1.Container{Env: []corev1.EnvVar{{Name: coderv1alpha1.EnvDatabase, Value: "postgres://db"}}})
		}), want: true},
		"argument of podTemplate": {cp: with(func(cp *coderv1alpha1.CoderControlPlane) {
			cp.Spec.PodTemplate = inTemplate(corev1.Container{Args: []string{"--postgres-url=postgres://db"}})
		}), want: true},
		"podTemplate that does not fit": {cp: with(func(cp *coderv1alpha1.CoderControlPlane) {
			cp.Spec.PodTemplate = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{ServiceAccountName: "other"}}
		})},
	} {
		w := plainControlPlane(c.cp)
		w.EnvFromNames = c.from
		if got := DatabaseConfigured(c.cp, w); got != c.want {
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
		cp := minimalControlPlane()
		cp.Spec.Database = c.spec
		if secret, key := cp.Spec.Database.Secret(); [2]string{secret, key} != c.want {
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
			cp := minimalControlPlane()
			cp.Spec.WorkloadSpec = c.spec
			container := AdminJob(cp, plainControlPlane(cp), "credentials").Spec.Template.Spec.Containers[0]
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
	cp := exposedControlPlane()
	pod := AdminJob(cp, plainControlPlane(cp), "credentials").Spec.Template.Spec
	if len(pod.Containers) != 1 || pod.Containers[0].Name != ControlPlaneContainer {
		t.Errorf("containers are %v", pod.Containers)
	}
	if len(pod.InitContainers) != 1 {
		t.Errorf("the init containers are gone: %v", pod.InitContainers)
	}
	if c := pod.Containers[0]; c.Lifecycle != nil || c.ReadinessProbe != nil || len(c.Ports) != 0 {
		t.Errorf("the container serves: %+v", c)
	}
	broken := exposedControlPlane()
	broken.Spec.PodTemplate.Spec.ServiceAccountName = "other"
	if got := AdminJob(broken, plainControlPlane(broken), "credentials").Spec.Template.Spec.ServiceAccountName; got != "coder" {
		t.Errorf("with a template that does not fit the Job runs as %q", got)
	}
}

// The Service must not route requests to the pod of the admin Job.
func TestTheServiceDoesNotSelectTheAdminJob(t *testing.T) {
	cp := minimalControlPlane()
	pod := AdminJob(cp, plainControlPlane(cp), "x").Spec.Template.Labels
	selected := true
	for key, value := range Service(plainControlPlane(cp)).Spec.Selector {
		selected = selected && pod[key] == value
	}
	if selected {
		t.Errorf("the selector of the Service matches the labels of the Job's pods: %v", pod)
	}
}

func TestBuildersShareNothingWithTheSpec(t *testing.T) {
	cp := fullControlPlane()
	before := cp.DeepCopy()
	d := deployment(t, ControlPlane(cp, Cluster{}))
	d.Labels["changed"] = "yes"
	d.Spec.Template.Spec.Containers[0].Env[0].Value = "changed"
	d.Spec.Template.Spec.Containers[0].Args = append(d.Spec.Template.Spec.Containers[0].Args[:1], "changed")
	if diff := cmp.Diff(before, cp); diff != "" {
		t.Errorf("a change to the Deployment changed the control plane:\n%s", diff)
	}
}

func TestWorkspaceNamespaces(t *testing.T) {
	cp := fullControlPlane()
	if diff := cmp.Diff([]string{"platform", "work-a"}, WorkspaceNamespaces(plainControlPlane(cp))); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
	cp.Spec.RBAC.WorkspacePerms = ptr.To(false)
	if got := WorkspaceNamespaces(plainControlPlane(cp)); got != nil {
		t.Errorf("namespaces %v, want none", got)
	}
	cp.Spec.ServiceAccount.DisableCreate = true
	if ServiceAccount(plainControlPlane(cp)) != nil {
		t.Error("a ServiceAccount is made although the spec uses one that exists")
	}
}

// The replicas of one control plane reach each other on the port of Coder's embedded NATS, and no
// other pod does.
func TestReplicasReachEachOther(t *testing.T) {
	cp := minimalControlPlane()
	cp.Spec.NetworkPolicy = &coderv1alpha1.NetworkPolicySpec{}
	w := ControlPlane(cp, Cluster{})
	found := false
	for _, rule := range NetworkPolicy(w).Spec.Ingress {
		for _, port := range rule.Ports {
			if port.Port.IntValue() != clusterPort {
				continue
			}
			found = true
			if len(rule.From) != 1 || rule.From[0].NamespaceSelector != nil || rule.From[0].PodSelector.MatchLabels[coderv1alpha1.LabelInstance] != cp.Name {
				t.Errorf("port %d is open to %v", clusterPort, rule.From)
			}
		}
	}
	if !found {
		t.Errorf("no rule for port %d", clusterPort)
	}
}

func TestClusterHost(t *testing.T) {
	running := func(image string, env ...corev1.EnvVar) *corev1.PodTemplateSpec {
		return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "coder", Image: image, Env: env}}}}
	}
	image := plainControlPlane(minimalControlPlane()).Image
	podIP := corev1.EnvVar{Name: envClusterHost, Value: "$(KUBE_POD_IP)"}
	for name, c := range map[string]struct {
		change func(*Workload)
		want   bool
	}{
		"new":                 {func(*Workload) {}, true},
		"given by a Secret":   {func(w *Workload) { w.EnvFromNames = map[string]bool{envClusterHost: true} }, false},
		"running without it":  {func(w *Workload) { w.Live = running(image) }, false},
		"running with it":     {func(w *Workload) { w.Live = running(image, corev1.EnvVar{Name: "KUBE_POD_IP"}, podIP) }, true},
		"the image changes":   {func(w *Workload) { w.Live = running("coder:older") }, true},
		"taken over, without": {func(w *Workload) { w.Adopted = &Adopted{Container: "coder", Template: running(image)} }, false},
	} {
		w := plainControlPlane(minimalControlPlane())
		c.change(&w)
		template, err := PodTemplate(w)
		if err != nil {
			t.Fatal(err)
		}
		env := template.Spec.Containers[0].Env
		at := slices.Index(env, podIP)
		if got := at >= 0; got != c.want {
			t.Errorf("%s: set: %t, want %t", name, got, c.want)
		}
		// A variable can only refer to variables before it.
		if ip := slices.IndexFunc(env, func(v corev1.EnvVar) bool { return v.Name == "KUBE_POD_IP" }); at >= 0 && ip > at {
			t.Errorf("%s: KUBE_POD_IP comes after it", name)
		}
	}
}
