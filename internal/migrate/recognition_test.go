package migrate

import (
	"strings"
	"testing"

	"github.com/coder-k8s/coder-k8s/internal/cli"
)

const aHelmRelease = `apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata:
  name: builders
  namespace: flux-system
spec:
  targetNamespace: team
  chart:
    spec:
      chart: coder-provisioner
  valuesFrom:
  - kind: Secret
    name: more
  values:
    coder:
      replicaCount: 10
`

const anApplication = `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata:
  name: dev-coder
spec:
  destination:
    namespace: team
  source:
    chart: coder
    helm:
      values: |
        coder:
          replicaCount: 2
          nonsense: 1
`

// Each case has one file and no --chart.
func TestFilesAreRecognized(t *testing.T) {
	const database = "coder: {env: [{name: CODER_PG_CONNECTION_URL, valueFrom: {secretKeyRef: {name: db, key: url}}}]}"
	for name, tc := range map[string]struct {
		file string
		code int
		// manifest and report are parts of the output. Without parts of a manifest, there is none.
		manifest, report []string
	}{
		"a provisioner by a variable": {"coder: {replicaCount: 10, env: [{name: CODER_URL, value: https://coder.example.com}]}", 0,
			[]string{"kind: CoderProvisioner", "replicas: 10"}, nil},
		"a provisioner by its tags": {"provisionerDaemon: {tags: {a: b}}", 0, []string{"kind: CoderProvisioner"}, nil},
		"a server by a variable":    {database, 0, []string{"kind: CoderControlPlane", "name: db"}, nil},
		"a server by its Service":   {"coder: {service: {type: ClusterIP}}", 0, []string{"kind: CoderControlPlane"}, []string{"CODER_PG_CONNECTION_URL is not in coder.env"}},
		"what both have":            {"coder: {replicaCount: 10}", 1, nil, []string{"do not show whether", "--chart"}},
		"both": {"coder: {service: {type: ClusterIP}}\nprovisionerDaemon: {tags: {a: b}}", 1, nil,
			[]string{"belong to two charts: coder.service.type to coder, and provisionerDaemon.tags.a to coder-provisioner"}},
		"the header of helm get values": {"USER-SUPPLIED VALUES:\n" + database, 0, []string{"kind: CoderControlPlane"}, nil},
		"the header of no values":       {"USER-SUPPLIED VALUES:\nnull", 1, nil, []string{"cannot be read as YAML"}},
		"a HelmRelease": {aHelmRelease, 0, []string{"kind: CoderProvisioner", "name: builders", "namespace: team", "replicas: 10"},
			[]string{"standard input:16: `coder.replicaCount`", "standard input:11: `spec.valuesFrom`: refers to values that are not in this file"}},
		"an Application": {anApplication, 3, []string{"kind: CoderControlPlane", "namespace: team", "replicas: 2"},
			[]string{"standard input:14: coder.nonsense is not a value of the chart coder"}},
		"an Application with an object": {"{apiVersion: argoproj.io/v1alpha1, kind: Application, spec: {source: {chart: coder, helm: {valuesObject: {" + database + "}}}}}", 0,
			[]string{"kind: CoderControlPlane"}, nil},
		"an Application with sources": {"{apiVersion: argoproj.io/v1alpha1, kind: Application, spec: {sources: [{chart: coder}]}}", 1, nil, []string{"spec.sources"}},
		"a HelmRelease of another chart": {"{apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, spec: {chart: {spec: {chart: nginx}}, values: {replicas: 1}}}", 1, nil,
			[]string{"none of the values is a value of the chart"}},
		"a HelmRelease whose values are elsewhere": {"{apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, spec: {chart: {spec: {chart: coder}}, valuesFrom: [{name: v}]}}", 1, nil,
			[]string{"nothing in the values in - is a value of the chart coder", "spec.valuesFrom refers to values that are not in this file"}},
		"values of a parent chart": {"replicas: 1\ncoder:\n  " + database, 0, []string{"kind: CoderControlPlane", "name: db"},
			[]string{"standard input:1: `replicas`: is a value of the parent chart", "standard input:3: `coder.env[0]`"}},
		"a parent chart with both": {"server: {coder: {replicaCount: 1}}\nbuilders: {coder: {replicaCount: 1}}", 1, nil, []string{"the values builders, server belong to several charts"}},
		"another object":           {"{apiVersion: v1, kind: ConfigMap, data: {a: b}}", 1, nil, []string{"is the manifest of a ConfigMap"}},
		"a Secret":                 {"{apiVersion: v1, kind: Secret, data: {a: b}}", 1, nil, []string{"--release-secret"}},
		"an unrelated file":        {"name: build\non: [push]", 1, nil, []string{"none of the values is a value of the chart"}},
		"several documents":        {database + "\n---\n" + database, 1, nil, []string{"standard input:2: is the second YAML document"}},
		"nothing":                  {"", 1, nil, []string{"none of the values is a value of the chart"}},
		"null":                     {"coder: null", 1, nil, []string{"do not show whether"}},
		"a mapping that is null": {"coder: {image: null, serviceAccount: null, service: {type: ClusterIP}}", 3,
			[]string{"image: ghcr.io/coder/coder:v", "    name: coder\n"}, []string{"coder.image is not a mapping"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, manifest, report := migrate(t, tc.file, "helm", "-f", "-")
			if code != tc.code || (manifest == "") != (len(tc.manifest) == 0) {
				t.Errorf("exit code %d, want %d; the manifest:\n%s", code, tc.code, manifest)
			}
			for _, part := range tc.manifest {
				if !strings.Contains(manifest, part) {
					t.Errorf("the manifest does not contain %q:\n%s", part, manifest)
				}
			}
			for _, part := range tc.report {
				if !strings.Contains(report, part) {
					t.Errorf("the report does not contain %q:\n%s", part, report)
				}
			}
		})
	}
	if code, manifest, report := migrate(t, "coder: null", "helm", "-f", "-", "--chart", "coder"); code != cli.ExitFailure || manifest != "" {
		t.Errorf("nothing but null: exit code %d\n%s\n%s", code, manifest, report)
	}
	if code, manifest, _ := migrate(t, aHelmRelease, "helm", "-f", "-", "-n", "mine"); code != cli.ExitOK || !strings.Contains(manifest, "namespace: mine") {
		t.Errorf("the given namespace: exit code %d\n%s", code, manifest)
	}
}
