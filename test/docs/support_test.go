package docs

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "render docs/reference/support.md anew")

// versions is internal/upgrade/supported.yaml.
type versions struct {
	Kubernetes struct{ Oldest, Tested, OldestControllers string }
	Coder      struct {
		Tested, Licensed, Sample string
		Versions                 []version
	}
	Operator struct{ Current string }
}

// version is a minor version of Coder: its release that ran, the tests that ran with it, and its release that the test server
// emulates.
type version struct{ Version, Real, With, Emulated string }

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func supported(t *testing.T) versions {
	t.Helper()
	var v versions
	if err := yaml.UnmarshalStrict([]byte(read(t, "internal/upgrade/supported.yaml")), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestVersionsAreTheSame compares each place that names a version with the one file.
func TestVersionsAreTheSame(t *testing.T) {
	v := supported(t)
	for _, place := range []struct{ path, pattern, want string }{
		{"charts/coder-k8s/Chart.yaml", `kubeVersion: ">=([0-9.]+)\.0-0"`, v.Kubernetes.OldestControllers},
		{"internal/installation/check.go", `oldestMinor = ([0-9]+)`, minor(v.Kubernetes.OldestControllers)},
		{"internal/installation/check.go", `oldestMinorAggregatedAPI = ([0-9]+)`, minor(v.Kubernetes.Oldest)},
		{"internal/installation/check.go", `oldestMinorMCP = ([0-9]+)`, minor(v.Kubernetes.Oldest)},
		{"hack/cluster/settings.sh", `(?m)^KUBE_VERSION=([0-9]+\.[0-9]+)`, v.Kubernetes.Tested},
		{"hack/cluster/settings.sh", `(?m)^CODER_VERSION="\$\{CODER_VERSION:-([0-9.]+)`, strings.TrimPrefix(v.Coder.Tested, "v")},
		{"README.md", `Kubernetes [0-9.]+ cluster, PostgreSQL and Coder ([0-9.]+[0-9])`, strings.TrimPrefix(v.Coder.Tested, "v")},
		{"README.md", `with a real Coder ([0-9.]+[0-9])`, strings.TrimPrefix(v.Coder.Tested, "v")},
		{"hack/cluster/README.md", `and Coder ([0-9.]+[0-9])`, strings.TrimPrefix(v.Coder.Tested, "v")},
		{"config/samples/codercontrolplane.yaml", `image: ghcr.io/coder/coder:(\S+)`, v.Coder.Sample},
		{"docs/how-to/choose-an-installation.md", `Parts of Kubernetes ([0-9.]+[0-9]) are used`, v.Kubernetes.Oldest},
		{"Makefile", `VERSION \?= (v[0-9]+\.[0-9]+)`, v.Operator.Current},
		{"test/licensed/go.mod", `github.com/coder/coder/v2 (v[0-9.]+)`, v.Coder.Licensed},
	} {
		found := regexp.MustCompile(place.pattern).FindStringSubmatch(read(t, place.path))
		if len(found) == 0 || found[1] != place.want {
			t.Errorf("%s has %q for %s, and internal/upgrade/supported.yaml has %q", place.path, found, place.pattern, place.want)
		}
	}
	var emulated, listed []string
	for _, found := range regexp.MustCompile(`Release = "(v[0-9.]+)`).FindAllStringSubmatch(read(t, "internal/coderd/coderdtest/releases.go"), -1) {
		emulated = append(emulated, found[1])
	}
	for _, coder := range v.Coder.Versions {
		if coder.Emulated != "" {
			listed = append(listed, coder.Emulated)
		}
	}
	if !slices.Equal(emulated, listed) {
		t.Errorf("the test server emulates Coder %v, and internal/upgrade/supported.yaml has %v", emulated, listed)
	}
}

func minor(version string) string { return strings.TrimPrefix(version, "1.") }

// TestPagesNameTheOldestKubernetes reads each page that says which Kubernetes is needed.
func TestPagesNameTheOldestKubernetes(t *testing.T) {
	want, named := supported(t).Kubernetes.Oldest, 0
	for _, p := range pages(t) {
		if p.path != "README.md" && !strings.HasPrefix(p.path, "docs/") {
			continue
		}
		for _, found := range regexp.MustCompile(`Kubernetes (1\.[0-9]+) or (?:newer|later)`).FindAllStringSubmatch(read(t, p.path), -1) {
			named++
			if found[1] != want {
				t.Errorf("%s asks for Kubernetes %s, and internal/upgrade/supported.yaml for %s", p.path, found[1], want)
			}
		}
	}
	if named < 2 {
		t.Errorf("%d pages name a version: the pattern of this test is wrong", named)
	}
}

const supportPage = `<!-- Rendered by test/docs from internal/upgrade/supported.yaml: go test ./test/docs -update -->
# Supported versions

| coder-k8s | Kubernetes | Coder |
| --- | --- | --- |
| {{.Operator.Current}} | {{.Kubernetes.Oldest}} or later | {{range $i, $v := .Coder.Versions}}{{if $i}}, {{end}}{{$v.Version}}{{end}} |

What was run for it:

| | with | how |
| --- | --- | --- |
| Kubernetes | {{.Kubernetes.Tested}} | the integration tests on a real kube-apiserver, the end-to-end tests on a real cluster |
| Kubernetes, earlier | read in the libraries, not run | from {{.Kubernetes.OldestControllers}} the controllers work; [what is missing before {{.Kubernetes.Oldest}}](../how-to/choose-an-installation.md#older-clusters) |
| Coder | {{.Coder.Tested}} | a real Coder in the end-to-end tests |
| Coder, licensed features | {{.Coder.Licensed}} | provisioner keys, external provisioners, proxies, licenses, service accounts, groups, prebuilt workspaces and two replicas in tests with real Coders and test licenses, outside of a cluster; licensed pods were not run |

What is known of each version of Coder:

| Coder | real | emulated | only read |
| --- | --- | --- | --- |
{{- range .Coder.Versions}}
| {{.Version}} | {{if .Real}}{{.Real}}: {{.With}}{{end}} | {{.Emulated}} | {{if not (or .Real .Emulated)}}yes{{end}} |
{{- end}}

- **Real**: a Coder of this version ran with these tests. The Go module proxy, from which the tests build Coder, does not serve
  every version: of 2.34, whose release {{.Coder.Sample}} the samples name, none. It lies between two versions that ran.
- **Emulated**: the test server of the unit and integration tests answers as this version does. The same contract tests run with the
  test server and with a real Coder, and both must pass.
- **Only read**: what this project uses of Coder's API was compared in Coder's source code. Nothing ran.

The versions between the oldest and the newest are all supported, also those that Coder itself no longer supports and those that
were only read, such as 2.35: versions before and after them ran, and the [differences](../explanation/architecture.md#versions-of-coder)
are known. A Coder outside of them works on, and nothing is blocked. What to expect is in the condition ` + "`VersionSupported`" + ` of its
CoderControlPlane, which ` + "`kubectl coder version`, `kubectl coder status` and `kubectl coder upgrade plan`" + ` show:

| version | ` + "`VersionSupported`" + ` | what to expect |
| --- | --- | --- |
| in the table | True | it works |
| newer | False, ` + "`NewerVersion`" + ` | it is likely to work: unknown fields and values are tolerated, which the tests check. Its source was not read |
| older | False, ` + "`OlderVersion`" + ` | what needs a request or a field that this Coder does not have fails with an error |
| a development build, a pre-release, or not a version, such as an image with a digest of a Coder that the operator does not call | Unknown, ` + "`VersionUnknown`" + ` | as the release next to it |

If something else than the pods answers, for example a proxy, its version counts, and the message also names the image of the pods.
The version decides about [an upgrade](../how-to/upgrade-coder.md). Where it is wrong, an unknown user of a Coder before 2.31 can appear
as an error instead of "not found".

## Version scheme

A version is ` + "`vMAJOR.MINOR.PATCH`" + ` as [Semantic Versioning](https://semver.org) defines it. Before v1.0.0 a new minor version may
change the API; the [changelog](https://github.com/coder-k8s/coder-k8s/blob/main/CHANGELOG.md) then says what to do. The image, the manifests, the chart (without the ` + "`v`" + `) and the
kubectl plugin have the same version. A version with a hyphen, such as ` + "`v0.2.0-rc.1`" + `, is a pre-release.

## Upgrade and deprecation policy

- Upgrade one minor version at a time, to its newest patch. [How to upgrade, and roll back](../how-to/upgrade.md).
- The newest minor version gets fixes. The one before it gets fixes of security for three months after the next one.
- A field, flag, condition or metric is first marked as deprecated, in its description and in the changelog, and works on for at
  least one minor version. From v1.0.0 on it works for the whole major version.
- The API of a group ` + "`v1alpha1`" + ` can change between minor versions. Objects that are stored stay readable, or the upgrade
  converts them.
- A version of Kubernetes or Coder is dropped with a minor version, and not with a patch.
`

// TestPage checks that the page agrees with the file.
func TestPage(t *testing.T) {
	var out bytes.Buffer
	if err := template.Must(template.New("").Parse(supportPage)).Execute(&out, supported(t)); err != nil {
		t.Fatal(err)
	}
	const path = "docs/reference/support.md"
	if *update {
		if err := os.WriteFile(filepath.Join(root, path), out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, path) != out.String() {
		t.Errorf("%s differs from what internal/upgrade/supported.yaml says: go test ./test/docs -update", path)
	}
}
