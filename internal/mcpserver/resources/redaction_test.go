package resources

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// marker is the value of every string in a filled object.
const marker = "hunter22"

// fill sets each field of a value, down to a depth that covers all kinds.
func fill(v reflect.Value, depth int) {
	switch v.Interface().(type) {
	case metav1.Time:
		v.Set(reflect.ValueOf(metav1.NewTime(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))))
		return
	case metav1.FieldsV1:
		v.Set(reflect.ValueOf(*metav1.NewFieldsV1(`{"f:spec":{"f:` + marker + `":{}}}`)))
		return
	case intstr.IntOrString:
		v.Set(reflect.ValueOf(intstr.FromInt32(1)))
		return
	case resource.Quantity:
		v.Set(reflect.ValueOf(resource.MustParse("1")))
		return
	}
	if depth == 0 {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(marker)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth-1)
	case reflect.Slice:
		// The first argument is shown, so there are two.
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), depth-1)
		fill(v.Index(1), depth-1)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, depth-1)
		fill(value, depth-1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), depth-1)
			}
		}
	}
}

// texts collects the strings in a value by path.
func texts(path string, value any, into map[string]string) {
	switch value := value.(type) {
	case map[string]any:
		for key, v := range value {
			texts(path+"."+key, v, into)
		}
	case []any:
		for _, v := range value {
			texts(path, v, into)
		}
	case string:
		into[strings.TrimPrefix(path, ".")] = value
	}
}

// filled returns the JSON of an object with a value in every field.
func filled(t *testing.T, obj any) map[string]any {
	t.Helper()
	fill(reflect.ValueOf(obj).Elem(), 24)
	raw, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// mayBeSecret matches the paths that must never be shown, in objects of all kinds.
var mayBeSecret = regexp.MustCompile(`(?i)` + strings.Join([]string{
	`env\.value$`, `httpHeaders\.value$`, `variables\.value$`, `\.command$`, `\.args$`, `extraArgs$`, `annotations\.`,
	`volumeAttributes\.`, `flexVolume\.options\.`, `gmsaCredentialSpec$`, `managedFields`, `sysctls\.value$`,
}, "|"))

func TestNothingSecretIsShown(t *testing.T) {
	for name, c := range map[string]struct {
		obj  any
		must []string
		show []string
	}{
		"control plane": {
			&coderv1alpha1.CoderControlPlane{},
			[]string{
				"spec.extraEnv.value", "spec.extraArgs", "spec.command", "spec.args", "spec.service.annotations.hunter22",
				"spec.expose.ingress.annotations.hunter22", "spec.podTemplate.metadata.annotations.hunter22",
				"spec.podTemplate.spec.containers.env.value", "spec.podTemplate.spec.initContainers.env.value",
				"spec.podTemplate.spec.containers.lifecycle.postStart.exec.command", "spec.podTemplate.spec.containers.lifecycle.preStop.httpGet.httpHeaders.value",
				"spec.podTemplate.spec.containers.livenessProbe.exec.command", "spec.volumes.csi.volumeAttributes.hunter22",
				"spec.volumes.flexVolume.options.hunter22", "spec.serviceAccount.annotations.hunter22", "metadata.annotations.hunter22",
			},
			[]string{"spec.image", "spec.extraEnv.name", "spec.database.secretRef.name", "status.conditions.message", "spec.podTemplate.spec.containers.name"},
		},
		"workspace": {
			&aggregationv1alpha1.CoderWorkspace{},
			[]string{"metadata.annotations.hunter22"},
			[]string{"spec.parameters.value", "status.phase", "status.latestBuild.error"},
		},
		"template": {
			&aggregationv1alpha1.CoderTemplate{},
			[]string{"spec.variables.value", "metadata.annotations.hunter22"},
			[]string{"spec.variables.valueFrom.secretKeyRef.name", "spec.description", "status.latestVersionError"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := map[string]string{}, map[string]string{}
			obj := filled(t, c.obj)
			texts("", obj, before)
			texts("", redactObject(obj), after)
			hidden := 0
			for path, value := range after {
				if mayBeSecret.MatchString(path) && strings.Contains(value, marker) {
					t.Errorf("%s is shown: %s", path, value)
				}
				if value != before[path] {
					hidden++
				}
			}
			for _, path := range c.must {
				if before[path] != marker || after[path] != redaction.Placeholder {
					t.Errorf("%s was %q and is %q", path, before[path], after[path])
				}
			}
			for _, path := range c.show {
				if after[path] != marker {
					t.Errorf("%s is not shown: %q", path, after[path])
				}
			}
			t.Logf("%d texts, %d of them hidden", len(after), hidden)
		})
	}
}

func TestRedactObject(t *testing.T) {
	for name, c := range map[string]struct{ from, want string }{
		"managed fields": {
			`{"metadata":{"name":"x","managedFields":[{"manager":"kubectl"}]}}`, `{"metadata":{"name":"x"}}`,
		},
		"annotations": {
			`{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}","objectset.rio.cattle.io/applied":"H4s",
				"coder.com/replicas":"2","aggregation.coder.com/x":"token=hunter22","evilcoder.com/x":"y"}}}`,
			`{"metadata":{"annotations":{"objectset.rio.cattle.io/applied":"[redacted]",
				"coder.com/replicas":"2","aggregation.coder.com/x":"token=[redacted]","evilcoder.com/x":"[redacted]"}}}`,
		},
		"environment": {
			`{"extraEnv":[{"name":"CODER_PG_CONNECTION_URL","value":"postgres://u:p@h/db"},{"name":"A","value":""},{"name":"B","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]}`,
			`{"extraEnv":[{"name":"CODER_PG_CONNECTION_URL","value":"[redacted]"},{"name":"A","value":""},{"name":"B","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]}`,
		},
		"parameters": {
			`{"parameters":[{"name":"size","value":"8"},{"name":"Git_Token","value":"x"},{"name":"api-key","value":"x"},{"name":"dotfiles","value":"https://ada:pw@git/x"},{"name":"pat","value":"x"},{"name":"pattern","value":"x"}]}`,
			`{"parameters":[{"name":"size","value":"8"},{"name":"Git_Token","value":"[redacted]"},{"name":"api-key","value":"[redacted]"},{"name":"dotfiles","value":"https://[redacted]@git/x"},{"name":"pat","value":"[redacted]"},{"name":"pattern","value":"x"}]}`,
		},
		"arguments": {
			`{"command":["/opt/coder","server"],"args":["--postgres-url=postgres://u:p@h/db","--psk","abc","--verbose","-c","export A=b; run","plain","A=b","-x y"]}`,
			`{"command":["/opt/coder","[redacted]"],"args":["--postgres-url=[redacted]","--psk","[redacted]","--verbose","-c","[redacted]","[redacted]","[redacted]","[redacted]"]}`,
		},
		"addresses": {
			`{"a":"https://token@git/x","b":"postgres://u:p@h/db?sslkey=x","c":"https://h/x?sig=abc more","httpGet":{"path":"/healthz?code=abc"},"d":"what?"}`,
			`{"a":"https://[redacted]@git/x","b":"postgres://[redacted]@h/db?[redacted]","c":"https://h/x?[redacted] more","httpGet":{"path":"/healthz?[redacted]"},"d":"what?"}`,
		},
		"text": {
			`{"message":"dial: password=hunter22 refused\u001b[31m","generation":3,"ready":true,"none":null}`,
			`{"message":"dial: password=[redacted] refused","generation":3,"ready":true,"none":null}`,
		},
	} {
		var from, want map[string]any
		for text, into := range map[string]*map[string]any{c.from: &from, c.want: &want} {
			if err := json.Unmarshal([]byte(text), into); err != nil {
				t.Fatal(err)
			}
		}
		was := fmt.Sprint(from)
		if diff := cmp.Diff(want, redactObject(from)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if name != "managed fields" && fmt.Sprint(from) != was {
			t.Errorf("%s: the object itself was changed", name)
		}
	}
}
