package integration

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/export"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
	"github.com/coder-k8s/coder-k8s/internal/supportbundle"
)

// TestExportAndSupportBundle runs both commands against a real kube-apiserver and the
// real program, as an administrator.
func TestExportAndSupportBundle(t *testing.T) {
	names, p := startOperator(t, "--app=all", "--leader-elect=false")
	serve(t, p)
	ns := namespace(t)
	controlPlaneReady(t, names, ns, "coder")
	template := &aggregationv1alpha1.CoderTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "coder.hello"},
		Spec:       aggregationv1alpha1.CoderTemplateSpec{DisplayName: "Hello", Files: map[string]string{"main.tf": "# nothing\n"}},
	}
	polltest.Eventually(t, "the template is Ready", func(ctx context.Context) error {
		// The aggregated API may not have seen the control plane yet, or the template
		// exists already.
		if err := environment.client.Create(ctx, template.DeepCopy()); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		found := &aggregationv1alpha1.CoderTemplate{}
		if err := environment.client.Get(ctx, client.ObjectKeyFromObject(template), found); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(found.Status.Conditions, aggregationv1alpha1.ConditionReady) {
			return fmt.Errorf("its conditions are %+v", found.Status.Conditions)
		}
		return nil
	})
	if err := environment.client.Create(t.Context(), workspaceOf(ns, "coder.admin.one", "hello")); err != nil {
		t.Fatal(err)
	}
	kubeconfig := kubeconfigFile(t, environment.config)

	var manifests, problems bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &manifests, ErrOut: &problems}
	if code := cli.Execute(t.Context(), export.NewCommand(streams), []string{"--kubeconfig", kubeconfig, "-n", ns}, streams); code != cli.ExitOK {
		t.Errorf("export: exit code %d: %s", code, problems.String())
	}
	for _, want := range []string{"name: coder.hello", "name: coder.admin.one", "# nothing"} {
		if !strings.Contains(manifests.String(), want) {
			t.Errorf("the export does not have %q:\n%s", want, manifests.String())
		}
	}

	secrets := secretValues(t, ns, operatorNamespace)
	var archive bytes.Buffer
	problems.Reset()
	streams = genericiooptions.IOStreams{In: strings.NewReader(""), Out: &archive, ErrOut: &problems}
	args := []string{"--kubeconfig", kubeconfig, "-n", ns, "--operator-namespace", operatorNamespace, "-o", "-"}
	if code := cli.Execute(t.Context(), supportbundle.NewCommand(streams), args, streams); code != cli.ExitOK {
		t.Errorf("support-bundle: exit code %d: %s", code, problems.String())
	}
	files := filesIn(t, &archive)
	var all strings.Builder
	for name, content := range files {
		all.WriteString(name + "\n" + content)
	}
	folder := "namespaces/" + ns + "/"
	for name, want := range map[string]string{
		"versions.yaml": "v1.", "problems.yaml": "problems:", "installation/apiservices/v1alpha1.aggregation.coder.com.yaml": "caBundle: certificates",
		"installation/customresourcedefinitions/codercontrolplanes.coder.com.yaml": "Established", folder + "codercontrolplanes/coder.yaml": "CODER_PG_CONNECTION_URL",
		folder + "deployments/coder.yaml": "ownerReferences", folder + "secrets/coder-operator-token.yaml": "token: '[redacted] 33 bytes'",
		folder + "coderworkspaces.yaml": "coder.admin.one", folder + "codertemplates.yaml": "bytes", folder + "events.txt": "",
	} {
		if content, ok := files[name]; !ok || !strings.Contains(content, want) {
			t.Errorf("%s has not %q: %.300s", name, want, content)
		}
	}
	for text, what := range secrets {
		for _, form := range []string{text, base64.StdEncoding.EncodeToString([]byte(text)), url.QueryEscape(text)} {
			if strings.Contains(all.String()+problems.String(), form) {
				t.Errorf("%s stands in the archive", what)
			}
		}
	}
}

// secretValues returns the values in the Secrets of namespaces, except names and
// certificates.
func secretValues(t *testing.T, namespaces ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, ns := range namespaces {
		list := &corev1.SecretList{}
		if err := environment.client.List(t.Context(), list, client.InNamespace(ns)); err != nil {
			t.Fatal(err)
		}
		for _, secret := range list.Items {
			for key, value := range secret.Data {
				if key != "username" && !strings.HasSuffix(key, ".crt") {
					out[string(value)] = fmt.Sprintf("key %s of Secret %s/%s", key, ns, secret.Name)
				}
			}
		}
	}
	// The operator's token and password, that of the first admin, and the keys of the
	// aggregated API.
	if len(out) < 5 {
		t.Fatalf("only these secrets were found: %v", slices.Sorted(maps.Values(out)))
	}
	return out
}

// filesIn reads an archive, and removes the common top directory from the names.
func filesIn(t *testing.T, from io.Reader) map[string]string {
	t.Helper()
	compressed, err := gzip.NewReader(from)
	if err != nil {
		t.Fatal(err)
	}
	files, entries := map[string]string{}, tar.NewReader(compressed)
	for {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(entries)
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(header.Name, "/")
		files[name] = string(content)
	}
}
