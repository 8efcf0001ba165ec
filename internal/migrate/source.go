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
	"maps"
	"slices"
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

// recognized is the content of a file: values as Helm reads them, or the object of a GitOps tool that
// contains values.
type recognized struct {
	values Values
	// chart, release and namespace are those of the GitOps object. They are empty for a file of values.
	chart, release, namespace string
	// elsewhere lists values that are not in the file.
	elsewhere []Entry
}

// recognize reads a file. An error reports that it is another object.
func recognize(file string, raw []byte) (recognized, error) {
	values, err := ParseValues(file, raw)
	if err != nil {
		return recognized{}, err
	}
	kind := values.text("kind")
	switch {
	case kind == "" || values.text("apiVersion") == "":
	case kind == "HelmRelease":
		return recognized{
			values: values.below("spec.values"), chart: chartNamed(values.text("spec.chart.spec.chart")),
			release:   cmp.Or(values.text("spec.releaseName"), values.text("metadata.name")),
			namespace: cmp.Or(values.text("spec.targetNamespace"), values.text("metadata.namespace")),
			elsewhere: values.elsewhere("spec.valuesFrom", "spec.chart.spec.valuesFiles"),
		}, nil
	case kind == "Application":
		return fromApplication(file, values)
	case kind == "Secret":
		return recognized{}, fmt.Errorf("%s: is the manifest of a Secret; if Helm keeps a release in it, use --release-secret", file)
	default:
		return recognized{}, fmt.Errorf("%s: is the manifest of a %s, and not the values of a chart of Coder", file, kind)
	}
	// "helm get values" prints such a line first, unless it is called with --output.
	for _, header := range []string{"USER-SUPPLIED VALUES", "COMPUTED VALUES"} {
		if value, has := values.Content[header]; has && value == nil {
			delete(values.Content, header)
		}
	}
	return recognized{values: values}, nil
}

// fromApplication reads an Application of Argo CD with one source.
func fromApplication(file string, object Values) (recognized, error) {
	const source = "spec.source"
	if _, several := object.Get("spec.sources"); several {
		return recognized{}, fmt.Errorf("%s: is an Application with spec.sources; write the values of Coder's chart into a file of its own", object.At("spec.sources"))
	}
	values := object.below(source + ".helm.valuesObject")
	if len(values.Content) == 0 {
		path := source + ".helm.values"
		at := object.At(path)
		parsed, err := ParseValues(file, []byte(object.text(path)))
		if err != nil {
			return recognized{}, fmt.Errorf("%s: %s: %w", at, path, err)
		}
		for below, place := range parsed.places {
			// The text begins in the line after its key.
			place.Line += at.Line
			parsed.places[below] = place
		}
		values = parsed
	}
	return recognized{
		values: values, chart: chartNamed(object.text(source + ".chart")),
		release:   cmp.Or(object.text(source+".helm.releaseName"), object.text("metadata.name")),
		namespace: object.text("spec.destination.namespace"),
		elsewhere: object.elsewhere(source+".helm.valueFiles", source+".helm.parameters", source+".helm.fileParameters"),
	}, nil
}

// chartNamed returns the name if it is the name of a chart of Coder. Another name is that of a chart that
// contains it, or of a copy.
func chartNamed(name string) string {
	if name == ChartCoder || name == ChartProvisioner {
		return name
	}
	return ""
}

func (s Values) text(path string) string {
	value, _ := s.Get(path)
	text, _ := value.(string)
	return text
}

// below returns the values below a path, with their positions.
func (s Values) below(path string) Values {
	value, _ := s.Get(path)
	content, _ := value.(map[string]any)
	part := Values{Content: content, places: map[string]Position{"": s.At(path)}}
	for at, place := range s.places {
		if under, is := strings.CutPrefix(at, path+"."); is {
			part.places[under] = place
		}
	}
	return part
}

// elsewhere returns an entry for each of the paths that refers to values outside of the file.
func (s Values) elsewhere(paths ...string) []Entry {
	var all []Entry
	for _, path := range paths {
		if value, _ := s.Get(path); !empty(value) {
			all = append(all, Entry{Value: path, Where: s.At(path), Outcome: Manual,
				Note: "refers to values that are not in this file; write them into a file and give it with --values, in the same order"})
		}
	}
	return all
}

// part returns the values of Coder's chart in those of a parent chart, which are below the name of the
// chart. Values of Coder's chart itself are returned unchanged.
func (s Values) part() (Values, []Entry, error) {
	var charts []string
	for _, key := range slices.Sorted(maps.Keys(s.Content)) {
		if below, isMap := s.Content[key].(map[string]any); isMap && (isMapping(below["coder"]) || isMapping(below["provisionerDaemon"])) {
			charts = append(charts, key)
		}
	}
	switch len(charts) {
	case 0:
		return s, nil, nil
	case 1:
	default:
		return Values{}, nil, fmt.Errorf("the values %s belong to several charts of Coder; write what is below each into a file of its own", strings.Join(charts, ", "))
	}
	var others []Entry
	for _, key := range slices.Sorted(maps.Keys(s.Content)) {
		if key != charts[0] {
			others = append(others, Entry{Value: key, Where: s.At(key), Outcome: Unneeded,
				Note: "is a value of the parent chart; only those below " + charts[0] + " belong to Coder"})
		}
	}
	return s.below(charts[0]), others, nil
}

func isMapping(value any) bool {
	_, is := value.(map[string]any)
	return is
}

// chartOf recognizes the chart by the values that only one of the two has, and by the environment
// variables that only a server or only a provisioner reads.
func chartOf(given Values) (string, error) {
	tables := map[string]parityTable{ChartCoder: readParity(parityControlPlane), ChartProvisioner: readParity(parityProvisioner)}
	var server, provisioner []string
	isCoder := false
	for _, path := range given.Leaves(tables[ChartCoder].whole) {
		ofServer, ofProvisioner := tables[ChartCoder].covers(path), tables[ChartProvisioner].covers(path)
		isCoder = isCoder || ofServer || ofProvisioner
		switch {
		case ofServer && !ofProvisioner:
			server = append(server, path)
		case ofProvisioner && !ofServer:
			provisioner = append(provisioner, path)
		}
	}
	env, _ := given.Get("coder.env")
	entries, _ := env.([]any)
	// The beginnings of names of variables that a server or a proxy reads, and those that a provisioner reads.
	serverPrefixes := []string{"CODER_ACCESS_URL", "CODER_WILDCARD_ACCESS_URL", "CODER_PG_", "CODER_OIDC_", "CODER_OAUTH2_", "CODER_EXTERNAL_AUTH_",
		"CODER_EXTERNAL_TOKEN_", "CODER_PRIMARY_ACCESS_URL", "CODER_PROXY_SESSION_TOKEN", "CODER_TLS_", "CODER_DERP_"}
	provisionerPrefixes := []string{"CODER_URL", "CODER_PROVISIONER_DAEMON_KEY", "CODER_PROVISIONER_DAEMON_NAME", "CODER_PROVISIONERD_"}
	for _, name := range slices.Sorted(maps.Keys(lastOf(entries))) {
		begins := func(beginning string) bool { return strings.HasPrefix(name, beginning) }
		switch {
		case slices.ContainsFunc(serverPrefixes, begins):
			server = append(server, name)
		case slices.ContainsFunc(provisionerPrefixes, begins):
			provisioner = append(provisioner, name)
		}
	}
	switch {
	case len(server) > 0 && len(provisioner) > 0:
		return "", fmt.Errorf("the values belong to two charts: %s to %s, and %s to %s; give --chart",
			server[0], ChartCoder, provisioner[0], ChartProvisioner)
	case len(server) > 0:
		return ChartCoder, nil
	case len(provisioner) > 0:
		return ChartProvisioner, nil
	case !isCoder:
		return "", fmt.Errorf("none of the values is a value of the chart %s or %s; nothing was written", ChartCoder, ChartProvisioner)
	}
	return "", fmt.Errorf("the values do not show whether they are for the chart %s or %s; give --chart", ChartCoder, ChartProvisioner)
}
