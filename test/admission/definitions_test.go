package admission

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// TestDefinitionsAreEstablished checks that the API server serves the CRDs, and
// reports no problem in a schema (a rule that costs too much, a schema that is not
// structural).
func TestDefinitionsAreEstablished(t *testing.T) {
	for kind, definition := range definitions(t) {
		t.Run(kind, func(t *testing.T) {
			live := &apiextensionsv1.CustomResourceDefinition{}
			if err := environment.client.Get(t.Context(), client.ObjectKeyFromObject(definition), live); err != nil {
				t.Fatal(err)
			}
			established := false
			for _, condition := range live.Status.Conditions {
				switch condition.Type {
				case apiextensionsv1.Established, apiextensionsv1.NamesAccepted:
					if condition.Status != apiextensionsv1.ConditionTrue {
						t.Errorf("%s is %s: %s", condition.Type, condition.Status, condition.Message)
					}
					established = established || condition.Type == apiextensionsv1.Established
				case apiextensionsv1.NonStructuralSchema, apiextensionsv1.Terminating:
					t.Errorf("%s is %s: %s", condition.Type, condition.Status, condition.Message)
				}
			}
			if !established {
				t.Errorf("the conditions are %+v, without Established", live.Status.Conditions)
			}
		})
	}
}

// TestDefinitionsFitClientSideApply: kubectl apply stores the applied object in an
// annotation, and all annotations together are limited to 256 KiB.
func TestDefinitionsFitClientSideApply(t *testing.T) {
	for kind, definition := range definitions(t) {
		raw, err := os.ReadFile(filepath.Join(basesDir, definition.Spec.Group+"_"+definition.Spec.Names.Plural+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		converted, err := yaml.YAMLToJSON(raw)
		if err != nil {
			t.Fatal(err)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, converted); err != nil {
			t.Fatal(err)
		}
		if got, most := compact.Len(), 250*1024; got > most {
			t.Errorf("%s has %d bytes as JSON, more than %d", kind, got, most)
		}
	}
	if out, err := kubectl(t, "apply", "-f", basesDir); err != nil {
		t.Errorf("kubectl apply: %v\n%s", err, out)
	}
}

// TestScale: kubectl scale and a HorizontalPodAutoscaler change each kind, also if the
// number of pods was never set.
func TestScale(t *testing.T) {
	ns := namespace(t)
	for _, kind := range allKinds {
		t.Run(kind, func(t *testing.T) {
			o := object(t, kind, ns, "scaled", "{}")
			if err := environment.client.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			if got := scaleOf(t, o, "spec", "replicas"); got != int64(1) {
				t.Errorf("scale says %v, not the default of 1", got)
			}
			if err := scaleTo(t, o, 3); err != nil {
				t.Fatal(err)
			}
			if err := environment.client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
				t.Fatal(err)
			}
			if got, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas"); got != 3 {
				t.Errorf("spec.replicas is %d after scaling to 3", got)
			}
			o.Object["status"] = map[string]any{"replicas": int64(2), "selector": "app.kubernetes.io/instance=scaled"}
			if err := environment.client.Status().Update(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			if got := scaleOf(t, o, "status", "replicas"); got != int64(2) {
				t.Errorf("scale counts %v pods, and the status 2", got)
			}
			if got := scaleOf(t, o, "status", "selector"); got != "app.kubernetes.io/instance=scaled" {
				t.Errorf("scale's selector is %v, not that of the status", got)
			}
			if err := scaleTo(t, o, -1); err == nil || !strings.Contains(err.Error(), "spec.replicas") {
				t.Errorf("scaling to -1 ends with %v, not with an error at spec.replicas", err)
			}
		})
	}
}

// newScale returns a Scale for the unstructured client.
func newScale() *unstructured.Unstructured {
	scale := &unstructured.Unstructured{}
	scale.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	return scale
}

func scaleOf(t *testing.T, o *unstructured.Unstructured, field ...string) any {
	t.Helper()
	scale := newScale()
	if err := environment.client.SubResource("scale").Get(t.Context(), o, scale); err != nil {
		t.Fatal(err)
	}
	value, _, err := unstructured.NestedFieldNoCopy(scale.Object, field...)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func scaleTo(t *testing.T, o *unstructured.Unstructured, replicas int64) error {
	t.Helper()
	scale := newScale()
	if err := environment.client.SubResource("scale").Get(t.Context(), o, scale); err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedField(scale.Object, replicas, "spec", "replicas"); err != nil {
		t.Fatal(err)
	}
	return environment.client.SubResource("scale").Update(t.Context(), o, client.WithSubResourceBody(scale))
}

// TestNamesForPeople checks the short names, the common category, and the columns of
// kubectl get.
func TestNamesForPeople(t *testing.T) {
	disco, err := discovery.NewDiscoveryClientForConfig(environment.config)
	if err != nil {
		t.Fatal(err)
	}
	list, err := disco.ServerResourcesForGroupVersion("coder.com/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]metav1.APIResource{}
	for _, resource := range list.APIResources {
		found[resource.Name] = resource
	}
	for resource, want := range map[string]struct {
		short   string
		columns []string
	}{
		"codercontrolplanes":    {"ccp", []string{"Name", "Ready", "Status", "Replicas", "Version", "URL", "Message", "Age"}},
		"coderprovisioners":     {"cprov", []string{"Name", "Ready", "Status", "Replicas", "Organization", "Key", "Message", "Age"}},
		"coderworkspaceproxies": {"cwp", []string{"Name", "Ready", "Status", "Replicas", "Proxy", "Registered", "Message", "Age"}},
		"codertemplatetests":    {"ctt", []string{"Name", "Template", "Version", "Phase", "Reason", "Ready After", "Message", "Age"}},
	} {
		t.Run(resource, func(t *testing.T) {
			got, ok := found[resource]
			if !ok {
				t.Fatalf("it is not served; served are %v", list.APIResources)
			}
			if !slices.Equal(got.ShortNames, []string{want.short}) || !slices.Equal(got.Categories, []string{"coder"}) {
				t.Errorf("short names %v, categories %v", got.ShortNames, got.Categories)
			}
			for _, sub := range []string{"/status", "/scale"} {
				if resource == "codertemplatetests" && sub == "/scale" {
					continue
				}
				if _, ok := found[resource+sub]; !ok {
					t.Errorf("%s is not served", sub)
				}
			}
			raw, err := disco.RESTClient().Get().AbsPath("/apis/coder.com/v1alpha1", resource).
				SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			table := &metav1.Table{}
			if err := json.Unmarshal(raw, table); err != nil {
				t.Fatal(err)
			}
			var columns []string
			for _, column := range table.ColumnDefinitions {
				columns = append(columns, column.Name)
			}
			if !slices.Equal(columns, want.columns) {
				t.Errorf("the columns are %v, not %v", columns, want.columns)
			}
		})
	}
}

// TestUnknownFieldsAreRefused checks that with strict decoding, which kubectl apply
// requests, the error contains the field, also deep in the pod template.
func TestUnknownFieldsAreRefused(t *testing.T) {
	ns := namespace(t)
	for _, kind := range allKinds {
		for spec, want := range map[string]string{
			"{replica: 2}": `unknown field "spec.replica"`,
			"{podTemplate: {spec: {containers: [{name: a, image: b, commands: [c]}]}}}": `unknown field "spec.podTemplate.spec.containers[0].commands"`,
			"{podTemplate: {spec: {priorityClass: high}}}":                              `unknown field "spec.podTemplate.spec.priorityClass"`,
			"{podTemplate: {metadata: {name: a}}}":                                      `unknown field "spec.podTemplate.metadata.name"`,
			"{volumes: [{name: a, empty: {}}]}":                                         `unknown field "spec.volumes[0].empty"`,
		} {
			raw, err := yaml.Marshal(object(t, kind, ns, "strict", spec).Object)
			if err != nil {
				t.Fatal(err)
			}
			out, err := kubectlWith(t, raw, "apply", "--dry-run=server", "-f", "-")
			if err == nil || !strings.Contains(out, want) {
				t.Errorf("%s with %s: error %v, and the answer has no %q:\n%s", kind, spec, err, want, out)
			}
		}
	}
}

// TestPodTemplateSurvives checks that the pod template is returned unchanged.
func TestPodTemplateSurvives(t *testing.T) {
	const spec = `podTemplate:
  metadata: {annotations: {a: b}, labels: {c: d}}
  spec:
    priorityClassName: high
    hostAliases: [{ip: 10.0.0.1, hostnames: [a]}]
    initContainers: [{name: wait, image: busybox}]
    containers:
    - {name: sidecar, image: busybox}`
	ns := namespace(t)
	for _, kind := range allKinds {
		o := object(t, kind, ns, "template", spec)
		want, _, _ := unstructured.NestedMap(o.Object, "spec", "podTemplate")
		if err := environment.client.Create(t.Context(), o, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
			t.Fatal(err)
		}
		got, _, _ := unstructured.NestedMap(o.Object, "spec", "podTemplate")
		// The pod template is a part of another, so nothing in it has a default.
		if wantText, gotText := asJSON(t, want), asJSON(t, got); gotText != wantText {
			t.Errorf("%s: the pod template is\n%s\nnot\n%s", kind, gotText, wantText)
		}
	}
}

// TestDefaultsAreVisible checks that defaults are in the object.
func TestDefaultsAreVisible(t *testing.T) {
	ns := namespace(t)
	for kind, want := range map[string]string{
		controlPlane: `{"certs":{},"envUseClusterAccessURL":true,"image":"ghcr.io/coder/coder:v2.34.8",` +
			`"initialAdmin":{"disabled":false,"email":"admin@coder-k8s.invalid","username":"admin"},` +
			`"livenessProbe":{"enabled":false,"failureThreshold":3,"initialDelaySeconds":0,"periodSeconds":10,"successThreshold":1,"timeoutSeconds":1},` +
			`"operatorAccess":{"disabled":false},"rbac":{"enableDeployments":true,"workspacePerms":true},` +
			`"readinessProbe":{"enabled":true,"failureThreshold":3,"initialDelaySeconds":0,"periodSeconds":10,"successThreshold":1,"timeoutSeconds":1},` +
			`"replicas":1,"service":{"enabled":true,"port":80,"type":"ClusterIP"},"serviceAccount":{"disableCreate":false},"tls":{}}`,
		provisioner: `{"certs":{},"controlPlaneRef":{"name":"coder"},"key":{"secretKey":"key"},"organizationName":"default",` +
			`"rbac":{"enableDeployments":true,"workspacePerms":true},"replicas":1,"serviceAccount":{"disableCreate":false}}`,
		proxy: `{"bootstrap":{},"certs":{},"controlPlaneRef":{"name":"coder"},"derpOnly":false,` +
			`"livenessProbe":{"enabled":false,"failureThreshold":3,"initialDelaySeconds":0,"periodSeconds":10,"successThreshold":1,"timeoutSeconds":1},` +
			`"readinessProbe":{"enabled":true,"failureThreshold":3,"initialDelaySeconds":0,"periodSeconds":10,"successThreshold":1,"timeoutSeconds":1},` +
			`"replicas":1,"service":{"enabled":true,"port":80,"type":"ClusterIP"},"serviceAccount":{"disableCreate":false},"tls":{}}`,
	} {
		o := object(t, kind, ns, "defaults", "{}")
		if err := environment.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if got := asJSON(t, o.Object["spec"]); got != want {
			t.Errorf("%s: the spec is\n%s\nnot\n%s", kind, got, want)
		}
	}
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// plural returns the name of the kind's resource.
func plural(kind string) string {
	if kind == proxy {
		return "coderworkspaceproxies"
	}
	return strings.ToLower(kind) + "s"
}

func kubectl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return kubectlWith(t, nil, args...)
}

// kubectlWith runs the kubectl beside the kube-apiserver, as an administrator.
func kubectlWith(t *testing.T, stdin []byte, args ...string) (string, error) {
	t.Helper()
	program := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl")
	if _, err := os.Stat(program); err != nil {
		t.Skipf("no kubectl in KUBEBUILDER_ASSETS: %v", err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: environment.config.Host, CertificateAuthorityData: environment.config.CAData}
	config.AuthInfos["test"] = &clientcmdapi.AuthInfo{ClientCertificateData: environment.config.CertData, ClientKeyData: environment.config.KeyData}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test", Namespace: corev1.NamespaceDefault}
	config.CurrentContext = "test"
	home := t.TempDir()
	file := filepath.Join(home, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, append([]string{"--kubeconfig", file}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+home)
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
