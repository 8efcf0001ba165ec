package release

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

const (
	// SecretType is the type of the Secrets in which Helm keeps releases.
	SecretType corev1.SecretType = "helm.sh/release.v1"

	secretKey     = "release"
	labelName     = "name"
	labelVersion  = "version"
	labelOwner    = "owner"
	ownerHelm     = "helm"
	statusGone    = "uninstalled"
	statusPast    = "superseded"
	maxReleaseLen = 64 << 20
)

// Release is one revision of a release.
type Release struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Revision  int    `json:"version"`
	// Config contains the user's values.
	Config map[string]any `json:"config"`
	// Manifest contains the objects that Helm applied, as a YAML stream.
	Manifest string `json:"manifest"`
	Chart    Chart  `json:"chart"`
	Info     Info   `json:"info"`
}

// Chart is the chart of a release.
type Chart struct {
	Metadata Metadata `json:"metadata"`
	// Values are the defaults of the chart.
	Values map[string]any `json:"values"`
}

// Metadata identifies a chart.
type Metadata struct {
	Name       string `json:"name"`
	Version    string `json:"version"`
	AppVersion string `json:"appVersion"`
}

// Info contains the status of a revision.
type Info struct {
	Status string `json:"status"`
}

// Decode decodes the content of a Helm Secret's key, after the base64 encoding of the Secret itself
// is removed.
func Decode(stored []byte) (*Release, error) {
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
	release := &Release{}
	if err := json.Unmarshal(content, release); err != nil {
		return nil, errors.New("the content is not the JSON of a release")
	}
	if release.Name == "" || release.Chart.Metadata.Name == "" {
		return nil, errors.New("the content names no release and no chart")
	}
	return release, nil
}

// FromSecret decodes a Secret of Helm.
func FromSecret(secret *corev1.Secret) (*Release, error) {
	stored, ok := secret.Data[secretKey]
	if !ok {
		return nil, fmt.Errorf("the Secret %q has no key %q, so it is none of Helm's", secret.Name, secretKey)
	}
	release, err := Decode(stored)
	if err != nil {
		return nil, fmt.Errorf("the Secret %q: %w", secret.Name, err)
	}
	if release.Namespace == "" {
		release.Namespace = secret.Namespace
	}
	return release, nil
}

// FromFile decodes a file with the manifest of such a Secret, as "kubectl get secret -o yaml"
// writes it, or as JSON.
func FromFile(file string, raw []byte) (*Release, error) {
	secret := &corev1.Secret{}
	if err := yaml.Unmarshal(raw, secret); err != nil || secret.Kind != "Secret" {
		return nil, fmt.Errorf("%s: is not the manifest of a Secret; write one with: kubectl get secret sh.helm.release.v1.NAME.vREVISION -o yaml", file)
	}
	release, err := FromSecret(secret)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return release, nil
}

// Find returns the newest revision of a release in the cluster.
func Find(ctx context.Context, client kubernetes.Interface, namespace, name string) (*Release, error) {
	selector := metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: map[string]string{labelOwner: ownerHelm, labelName: name}})
	list, err := client.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("looking for the release %q in namespace %q: %w", name, namespace, err)
	}
	var newest *corev1.Secret
	revision := -1
	for i := range list.Items {
		secret := &list.Items[i]
		number, err := strconv.Atoi(secret.Labels[labelVersion])
		if err == nil && secret.Type == SecretType && number > revision {
			newest, revision = secret, number
		}
	}
	if newest == nil {
		return nil, fmt.Errorf("namespace %q has no release %q of Helm; \"helm list -A\" shows all", namespace, name)
	}
	release, err := FromSecret(newest)
	if err != nil {
		return nil, err
	}
	if release.Info.Status == statusGone || release.Info.Status == statusPast {
		return nil, fmt.Errorf("revision %d of the release %q is %s, so nothing of it runs", revision, name, release.Info.Status)
	}
	return release, nil
}
