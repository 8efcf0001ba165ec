package migrate

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/version"
)

// source reads the input. A *cli.ExitError lists files that could not be read.
func (o *options) source(ctx context.Context) (Source, error) {
	namespace, isGiven, err := o.config.Loader().Namespace()
	if err != nil && len(o.values) == 0 {
		return Source{}, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	switch {
	case len(o.values) > 0:
		return o.fromFiles(namespace, isGiven)
	case o.releaseSecret != "":
		raw, err := o.readFile(o.releaseSecret)
		if err != nil {
			return Source{}, fmt.Errorf("reading the Secret of the release: %w", err)
		}
		found, err := releaseFromFile(o.releaseSecret, raw)
		if err != nil {
			return Source{}, err
		}
		return o.fromRelease(found)
	}
	config, err := o.config.Cluster(version.UserAgent())
	if err != nil {
		return Source{}, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return Source{}, fmt.Errorf("reaching the cluster: %w", err)
	}
	found, err := findRelease(ctx, client, namespace, o.release)
	if err != nil {
		return Source{}, err
	}
	return o.fromRelease(found)
}

// fromFiles merges values files in order. A file that cannot be read is skipped, unless all of them
// cannot be read. A given namespace takes precedence over one in a file.
func (o *options) fromFiles(namespace string, isGiven bool) (Source, error) {
	source := Source{Description: "the values in " + strings.Join(o.values, ", "), Namespace: namespace}
	var failed []error
	for _, name := range o.values {
		raw, err := o.readFile(name)
		if name == standard {
			name = "standard input"
		}
		var found recognized
		if err == nil {
			found, err = recognize(name, raw)
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		source.Values = source.Values.Over(found.values)
		source.Elsewhere = append(source.Elsewhere, found.elsewhere...)
		source.Chart, source.Release = cmp.Or(found.chart, source.Chart), cmp.Or(found.release, source.Release)
		if !isGiven {
			source.Namespace = cmp.Or(found.namespace, source.Namespace)
		}
	}
	if len(failed) == len(o.values) {
		return Source{}, errors.Join(failed...)
	}
	values, others, err := source.Values.part()
	if err != nil {
		return Source{}, err
	}
	source.Values, source.Elsewhere = values, append(source.Elsewhere, others...)
	if source.Chart = cmp.Or(o.chart, source.Chart); source.Chart == "" {
		if source.Chart, err = chartOf(values); err != nil {
			return Source{}, errors.Join(append(failed, err)...)
		}
	}
	source.Release, source.Namespace = cmp.Or(o.release, source.Release, source.Chart), cmp.Or(source.Namespace, "default")
	if len(failed) > 0 {
		return source, &cli.ExitError{Code: cli.ExitPartial, Err: errors.Join(failed...)}
	}
	return source, nil
}

func (o *options) fromRelease(found *helmRelease) (Source, error) {
	chart := cmp.Or(o.chart, found.Chart.Metadata.Name)
	if chart != ChartCoder && chart != ChartProvisioner {
		return Source{}, fmt.Errorf("the release %q is of the chart %q, which is not a chart of Coder; if it contains a chart of Coder, "+
			"write the values of that part into a file and use --values and --chart", found.Name, chart)
	}
	described := fmt.Sprintf("revision %d of the release %s in namespace %s, chart %s %s",
		found.Revision, found.Name, found.Namespace, found.Chart.Metadata.Name, found.Chart.Metadata.Version)
	return Source{
		Description: described, Chart: chart, Release: found.Name, Namespace: found.Namespace,
		AppVersion: found.Chart.Metadata.AppVersion, Values: ValuesOf("release "+found.Name, found.Config),
	}, nil
}

const (
	// releaseSecretType is the type of the Secrets in which Helm keeps releases.
	releaseSecretType corev1.SecretType = "helm.sh/release.v1"

	secretKey     = "release"
	maxReleaseLen = 64 << 20
)

// helmRelease is one revision of a release.
type helmRelease struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Revision  int    `json:"version"`
	// Config contains the user's values.
	Config map[string]any `json:"config"`
	Chart  struct {
		Metadata struct {
			Name       string `json:"name"`
			Version    string `json:"version"`
			AppVersion string `json:"appVersion"`
		} `json:"metadata"`
	} `json:"chart"`
	Info struct {
		Status string `json:"status"`
	} `json:"info"`
}

// decodeRelease decodes the content of a Helm Secret's key, after the base64 encoding of the Secret itself
// is removed.
func decodeRelease(stored []byte) (*helmRelease, error) {
	compressed := make([]byte, base64.StdEncoding.DecodedLen(len(stored)))
	n, err := base64.StdEncoding.Decode(compressed, bytes.TrimSpace(stored))
	if err != nil {
		return nil, errors.New("the content is not base64, as Helm writes a release")
	}
	content := compressed[:n]
	if bytes.HasPrefix(content, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(bytes.NewReader(content))
		if err != nil {
			return nil, fmt.Errorf("the content cannot be unpacked: %w", err)
		}
		if content, err = io.ReadAll(io.LimitReader(unpacked, maxReleaseLen+1)); err != nil {
			return nil, fmt.Errorf("the content cannot be unpacked: %w", err)
		}
		if len(content) > maxReleaseLen {
			return nil, fmt.Errorf("the content is larger than %d MiB, which no release is", maxReleaseLen>>20)
		}
	}
	release := &helmRelease{}
	if err := json.Unmarshal(content, release); err != nil {
		return nil, errors.New("the content is not the JSON of a release")
	}
	if release.Name == "" || release.Chart.Metadata.Name == "" {
		return nil, errors.New("the content names no release and no chart")
	}
	return release, nil
}

// releaseFromSecret decodes a Secret of Helm.
func releaseFromSecret(secret *corev1.Secret) (*helmRelease, error) {
	stored, ok := secret.Data[secretKey]
	if !ok {
		return nil, fmt.Errorf("the Secret %q has no key %q, so it is not a release of Helm", secret.Name, secretKey)
	}
	release, err := decodeRelease(stored)
	if err != nil {
		return nil, fmt.Errorf("the Secret %q: %w", secret.Name, err)
	}
	if release.Namespace == "" {
		release.Namespace = secret.Namespace
	}
	return release, nil
}

// releaseFromFile decodes a file with the manifest of such a Secret, as "kubectl get secret -o yaml"
// writes it, or as JSON.
func releaseFromFile(file string, raw []byte) (*helmRelease, error) {
	secret := &corev1.Secret{}
	if err := yaml.Unmarshal(raw, secret); err != nil || secret.Kind != "Secret" {
		return nil, fmt.Errorf("%s: is not the manifest of a Secret; write one with: kubectl get secret sh.helm.release.v1.NAME.vREVISION -o yaml", file)
	}
	release, err := releaseFromSecret(secret)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return release, nil
}

// findRelease returns the newest revision of a release in the cluster.
func findRelease(ctx context.Context, client kubernetes.Interface, namespace, name string) (*helmRelease, error) {
	selector := labels.SelectorFromSet(labels.Set{"owner": "helm", "name": name})
	list, err := client.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, fmt.Errorf("looking for the release %q in namespace %q: %w", name, namespace, err)
	}
	var newest *corev1.Secret
	revision := -1
	for i := range list.Items {
		secret := &list.Items[i]
		number, err := strconv.Atoi(secret.Labels["version"])
		if err == nil && secret.Type == releaseSecretType && number > revision {
			newest, revision = secret, number
		}
	}
	if newest == nil {
		return nil, fmt.Errorf("namespace %q has no release %q of Helm; \"helm list -A\" shows all", namespace, name)
	}
	release, err := releaseFromSecret(newest)
	if err != nil {
		return nil, err
	}
	if release.Info.Status == "uninstalled" || release.Info.Status == "superseded" {
		return nil, fmt.Errorf("revision %d of the release %q is %s, so nothing of it runs", revision, name, release.Info.Status)
	}
	return release, nil
}
