package migrate

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"
)

const stored = `{"name":"coder","namespace":"coder","version":3,"info":{"status":"deployed"},
"config":{"coder":{"image":{"tag":"v2.30.0"}}},"manifest":"---","chart":{"metadata":{"name":"coder","version":"2.30.0","appVersion":"2.30.0"},"values":{}}}`

func packed(t *testing.T, content string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return []byte(base64.StdEncoding.EncodeToString(out.Bytes()))
}

func secret(t *testing.T, revision int, content string) *corev1.Secret {
	t.Helper()
	number := strconv.Itoa(revision)
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "coder", Name: "sh.helm.release.v1.coder.v" + number,
			Labels: map[string]string{"owner": "helm", "name": "coder", "version": number},
		},
		Type: releaseSecretType, Data: map[string][]byte{"release": packed(t, content)},
	}
}

func TestTheNewestRevisionIsFound(t *testing.T) {
	old := strings.Replace(stored, `"version":3`, `"version":2`, 1)
	ten := strings.Replace(stored, `"version":3`, `"version":10`, 1)
	found, err := findRelease(t.Context(), fake.NewClientset(secret(t, 2, old), secret(t, 10, ten), secret(t, 3, stored)), "coder", "coder")
	if err != nil {
		t.Fatal(err)
	}
	if found.Revision != 10 || found.Chart.Metadata.AppVersion != "2.30.0" || found.Config["coder"] == nil {
		t.Errorf("found %+v", found)
	}
}

func TestWhatIsNoRelease(t *testing.T) {
	gone := strings.Replace(stored, "deployed", "uninstalled", 1)
	for want, secrets := range map[string][]*corev1.Secret{
		`has no release "coder"`: nil, "is uninstalled": {secret(t, 3, gone)},
		"names no release": {secret(t, 3, "{}")}, "not the JSON": {secret(t, 3, "hunter2")},
	} {
		client := fake.NewClientset()
		for _, s := range secrets {
			if err := client.Tracker().Add(s); err != nil {
				t.Fatal(err)
			}
		}
		_, err := findRelease(t.Context(), client, "coder", "coder")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestASecretInAFile(t *testing.T) {
	raw, err := yaml.Marshal(secret(t, 3, stored))
	if err != nil {
		t.Fatal(err)
	}
	if found, err := releaseFromFile("f.yaml", raw); err != nil || found.Name != "coder" {
		t.Errorf("%+v, %v", found, err)
	}
	for _, bad := range []string{"", "kind: ConfigMap", "kind: Secret", "kind: Secret\ndata: {release: aHVudGVyMg==}", "[hunter2"} {
		if _, err := releaseFromFile("f.yaml", []byte(bad)); err == nil || !strings.HasPrefix(err.Error(), "f.yaml: ") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: error %v", bad, err)
		}
	}
}
