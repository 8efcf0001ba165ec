package diagnosis

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden reports")

// golden returns the reports of six situations, as a model gets them. The evals on the real
// cluster cause the same failures.
func golden() map[string]struct {
	world   *world
	examine func(*world, *testing.T) *Report
	// cause must be in the summary.
	cause string
} {
	return map[string]struct {
		world   *world
		examine func(*world, *testing.T) *Report
		cause   string
	}{
		"crash-looping-control-plane": {crashWorld(), (*world).controlPlane, "configure oidc provider"},
		"bad-image":                   {imageWorld(), (*world).controlPlane, `image "registry.invalid/coder:none"`},
		"unreachable-database":        {databaseWorld(), (*world).controlPlane, "nothing listens at the address of the database"},
		"failed-template-build":       {templateWorld(), (*world).controlPlane, "Error: Invalid block definition on broken.tf line 1"},
		"workspace-that-cannot-start": {forbiddenBuildWorld(), (*world).workspace, `namespaces "team-a" not found`},
		"caller-without-rights":       {blindWorld(), (*world).controlPlane, "could not be read (events, pods, replicasets)"},
	}
}

func TestGoldenReports(t *testing.T) {
	for name, c := range golden() {
		t.Run(name, func(t *testing.T) {
			r := c.examine(c.world, t)
			if !strings.Contains(r.Summary, c.cause) {
				t.Errorf("the summary does not name the cause: %s", r.Summary)
			}
			got, err := json.MarshalIndent(r, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name+".golden.json")
			if *update {
				if err := os.WriteFile(path, append(got, '\n'), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimSpace(string(want)), string(got)); diff != "" {
				t.Errorf("-want +got, write it with -update:\n%s", diff)
			}
		})
	}
}

func imageWorld() *world {
	const image = "registry.invalid/coder:none"
	pod := aPod("1", waits("ImagePullBackOff", `Back-off pulling image "registry.invalid/coder:none": ErrImagePull: no such host`))
	pod.Spec.Containers[0].Image = image
	cp := aControlPlane(brokenPart("DeploymentAvailable", "ImagePullFailed",
		`image "registry.invalid/coder:none" of container "coder" cannot be fetched: the registry's name does not resolve; check spec.image, spec.imagePullPolicy and spec.imagePullSecrets`)...)
	cp.Spec.Image = image
	return &world{objects: []client.Object{
		cp, aDeployment(), aReplicaSet("1", 1, 1), pod,
		anEvent("Pod", "coder-r1-x", "Failed", `Failed to pull image "registry.invalid/coder:none": rpc error: code = Unknown desc = failed to pull and unpack image `+
			`"registry.invalid/coder:none": failed to resolve reference "registry.invalid/coder:none": failed to do request: Head "https://registry.invalid/v2/coder/manifests/none": `+
			`dial tcp: lookup registry.invalid on 10.0.0.2:53: no such host`),
		anEvent("CoderControlPlane", "coder", "ImagePullFailed", "the image cannot be fetched"),
	}}
}

func databaseWorld() *world {
	// It terminated twice and is running its next attempt.
	status := runs(false)
	status.RestartCount, status.LastTerminationState.Terminated = 2, &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}
	const cause = "dial tcp 127.0.0.1:1: connect: connection refused"
	return &world{
		objects: []client.Object{
			aControlPlane(brokenPart("DeploymentAvailable", "DatabaseUnreachable",
				"Coder cannot use its database: "+cause+"; check the database, and the value of CODER_PG_CONNECTION_URL")...),
			aDeployment(), aReplicaSet("1", 1, 1), aPod("1", status),
			anEvent("Pod", "coder-r1-x", "Unhealthy", "Readiness probe failed: Get \"http://10.244.0.9:8080/healthz\": context deadline exceeded"),
		},
		raw: map[string]string{
			podLog: "Started HTTP listener at http://0.0.0.0:8080\n" +
				"2026-11-20 12:24:44.379 [warn]  ping postgres: retrying  error=\"" + cause + "\"  try=1\n",
			podLog + "?previous": "2026-11-20 12:24:14.379 [warn]  ping postgres: retrying  error=\"" + cause + "\"  try=11\n" +
				"Encountered an error running \"coder server\", see \"coder server --help\" for more information\n" +
				"error: connect to postgres: connect to postgres: unable to connect after 11 tries; last error: " + cause + "\n",
		},
	}
}

func templateWorld() *world {
	broken := aTemplate()
	broken.Status.LatestVersionStatus, broken.Status.LatestVersionError = "failed", "template import init error: initialize terraform: exit status 1"
	broken.Status.LatestVersionID, broken.Status.LatestVersionName = "b", "v4"
	status := runs(true)
	return &world{
		objects: []client.Object{aControlPlane(working()...), aDeployment(), aReplicaSet("1", 1, 1), aPod("1", status), broken},
		raw:     map[string]string{"/apis/aggregation.coder.com/v1alpha1/namespaces/coder/codertemplates/coder.k8s/log": initError},
	}
}

func forbiddenBuildWorld() *world {
	ws := failedWorkspace("terraform apply: exit status 1")
	ws.Status.Agents = []aggregationv1alpha1.WorkspaceAgent{}
	return &world{
		objects: []client.Object{ws, aControlPlane(working()...), aTemplate()},
		raw: map[string]string{"/apis/aggregation.coder.com/v1alpha1/namespaces/coder/coderworkspaces/coder.ada.dev/log": logged("Starting workspace",
			"kubernetes_deployment.main[0]: Creating...", `Error: Failed to create deployment: namespaces "team-a" not found`,
			`on main.tf line 228, in resource "kubernetes_deployment" "main":`, `  228: resource "kubernetes_deployment" "main" {`) +
			logged("Cleaning Up", "")},
	}
}

// blindWorld returns an API in which the operator knows no cause, and the caller may not
// read the object that shows it.
func blindWorld() *world {
	d := aDeployment()
	d.Status.Conditions = []appsv1.DeploymentCondition{}
	d.Spec.Replicas = ptr.To[int32](1)
	return &world{
		objects:   []client.Object{aControlPlane(brokenPart("DeploymentAvailable", "Progressing", "0 of 1 pods are ready")...), d},
		forbidden: []string{pods, "log", events, replicaSets},
	}
}
