package supportbundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/installation"
)

// small is an installation with one control plane.
const small = `apiVersion: coder.com/v1alpha1
kind: CoderControlPlane
metadata: {name: coder, namespace: coder, uid: plane}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  {name: coder, namespace: coder, ownerReferences: [{apiVersion: coder.com/v1alpha1, kind: CoderControlPlane, name: coder, uid: plane}]}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  {name: coder-1, namespace: coder, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: coder, uid: Deployment-coder}]}
---
apiVersion: v1
kind: Pod
metadata:
  {name: coder-1-a, namespace: coder, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: coder-1, uid: ReplicaSet-coder-1}]}
status: {containerStatuses: [{name: coder, state: {running: {}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: somebody-elses, namespace: coder}
status: {containerStatuses: [{name: other, state: {running: {}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: coder-k8s-1, namespace: coder-system, labels: {app.kubernetes.io/name: coder-k8s}}
spec: {containers: [{name: coder-k8s, ports: [{name: metrics, containerPort: 8443}]}]}
status: {containerStatuses: [{name: coder-k8s, state: {running: {}}}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: codercontrolplanes.coder.com}
spec: {group: coder.com, versions: [{name: v1alpha1, schema: {openAPIV3Schema: {type: object}}}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: others.example.com}
spec: {group: example.com}
---
apiVersion: v1
kind: Event
metadata: {name: coder.2, namespace: coder}
involvedObject: {kind: Pod, name: coder-1-a}
reason: Started
type: Normal
message: second
lastTimestamp: "2026-11-21T11:00:00Z"
---
apiVersion: v1
kind: Event
metadata: {name: coder.1, namespace: coder}
involvedObject: {kind: Pod, name: coder-1-a}
reason: Pulled
type: Normal
message: first
lastTimestamp: "2026-11-21T10:00:00Z"`

func smallServer(t *testing.T) *kubeAPI {
	t.Helper()
	k := newKubeAPI(t)
	k.put(t, small)
	k.texts["/api/v1/namespaces/coder/pods/coder-1-a/log"] = "coder says so\n"
	k.texts["/api/v1/namespaces/coder/pods/somebody-elses/log"] = "not ours\n"
	k.texts["/api/v1/namespaces/coder-system/pods/coder-k8s-1/log"] = "operator says so\n"
	k.texts["/api/v1/namespaces/coder-system/pods/http:coder-k8s-1:8081/proxy/readyz"] = "[+]caches ok\n"
	return k
}

func TestBundleHasEverythingOfOurs(t *testing.T) {
	k := smallServer(t)
	b := run(t, k)
	if b.code != cli.ExitOK {
		t.Errorf("exit code %d: %s", b.code, b.stderr)
	}
	var names []string
	for name := range b.files {
		names = append(names, name)
	}
	slices.Sort(names)
	want := []string{
		"README.md",
		"installation/customresourcedefinitions/codercontrolplanes.coder.com.yaml",
		"installation/pods/coder-k8s-1.yaml",
		"installation/readyz/coder-k8s-1.txt",
		"logs/coder-system/coder-k8s-1/coder-k8s.log",
		"logs/coder/coder-1-a/coder.log",
		"namespaces/coder-system/events.txt",
		"namespaces/coder/codercontrolplanes/coder.yaml",
		"namespaces/coder/deployments/coder.yaml",
		"namespaces/coder/events.txt",
		"namespaces/coder/pods/coder-1-a.yaml",
		"namespaces/coder/replicasets/coder-1.yaml",
		"problems.yaml",
		"versions.yaml",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("2026-11-21T10:00:00Z Normal  Pulled                   Pod/coder-1-a x1 : first\n"+
		"2026-11-21T11:00:00Z Normal  Started                  Pod/coder-1-a x1 : second\n", b.files["namespaces/coder/events.txt"]); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	for name, text := range b.files {
		var document map[string]any
		if err := yaml.Unmarshal([]byte(text), &document); strings.HasSuffix(name, ".yaml") && err != nil {
			t.Errorf("%s is no YAML: %v\n%s", name, err, text)
		}
	}
	if len(k.writes) > 0 {
		t.Errorf("it wrote: %v", k.writes)
	}
	if again := run(t, k); !bytes.Equal(b.raw, again.raw) {
		t.Error("the same state gives other bytes")
	}
}

// TestWhatCannotBeHadIsNamed makes one part after the other fail.
func TestWhatCannotBeHadIsNamed(t *testing.T) {
	noCheck := func(context.Context, *rest.Config, installation.Expectation) ([]installation.Problem, error) {
		return nil, errors.New("no way to look")
	}
	partly := func(context.Context, *rest.Config, installation.Expectation) ([]installation.Problem, error) {
		return []installation.Problem{{Object: "it", What: "is broken", Do: "mend it"}}, errors.New("no right to look further")
	}
	for name, test := range map[string]struct {
		breaks  func(*kubeAPI)
		check   checkFunc
		want    string
		missing string
		// has is text of problems.yaml.
		has string
		// args are further arguments of the command.
		args []string
	}{
		"Secrets": {
			breaks: func(k *kubeAPI) { k.forbid("/api/v1/namespaces/coder/secrets", "secrets is forbidden") },
			want:   "the secrets of namespace coder: you may not read it: secrets is forbidden",
		},
		"a log": {
			breaks: func(k *kubeAPI) { k.forbid("/api/v1/namespaces/coder/pods/coder-1-a/log", "pods/log is forbidden") },
			want:   "logs/coder/coder-1-a/coder.log: you may not read it", missing: "logs/coder/coder-1-a/coder.log",
		},
		"the three kinds": {
			breaks: func(k *kubeAPI) { k.forbid("/apis/coder.com/v1alpha1/codercontrolplanes", "no") },
			want:   "the codercontrolplanes: you may not read it: no", missing: "namespaces/coder/codercontrolplanes/coder.yaml",
		},
		"workspaces": {
			breaks: func(k *kubeAPI) {
				k.failures["/apis/aggregation.coder.com/v1alpha1/namespaces/coder/coderworkspaces"] = unavailable("Coder is away")
			},
			want: "the coderworkspaces of namespace coder: Coder is away",
		},
		"the check":    {check: noCheck, want: "the problems of the installation: no way to look", missing: "problems.yaml"},
		"a part of it": {check: partly, want: "the problems of the installation: no right to look further", has: "what: is broken"},
		"readiness": {
			breaks: func(k *kubeAPI) {
				k.forbid("/api/v1/namespaces/coder-system/pods/http:coder-k8s-1:8081/proxy/readyz", "pods/proxy is forbidden")
			},
			want: "the readiness of pod coder-k8s-1: you may not read it", missing: "installation/readyz/coder-k8s-1.txt",
		},
		"an answer that does not come": {
			breaks: func(k *kubeAPI) { k.hang["/api/v1/namespaces/coder/pods/coder-1-a/log"] = true },
			want:   "logs/coder/coder-1-a/coder.log: the time of --timeout was over", missing: "logs/coder/coder-1-a/coder.log",
			// This case always runs into the timeout. The steps before the logs need a part
			// of it.
			args: []string{"--timeout=15s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := smallServer(t)
			if test.breaks != nil {
				test.breaks(k)
			}
			check := test.check
			if check == nil {
				check = func(context.Context, *rest.Config, installation.Expectation) ([]installation.Problem, error) {
					return nil, nil
				}
			}
			b := runChecked(t, k, check, test.args...)
			if b.code != cli.ExitPartial {
				t.Errorf("exit code %d, want %d: %s", b.code, cli.ExitPartial, b.stderr)
			}
			for where, text := range map[string]string{"README": b.files["README.md"], "standard error": b.stderr} {
				if !strings.Contains(text, test.want) {
					t.Errorf("%s does not say %q:\n%s", where, test.want, text)
				}
			}
			if _, there := b.files[test.missing]; there {
				t.Errorf("%s is there", test.missing)
			}
			if !strings.Contains(b.files["problems.yaml"], test.has) {
				t.Errorf("problems.yaml does not say %q:\n%s", test.has, b.files["problems.yaml"])
			}
			if warned := strings.Contains(b.files["README.md"], "Check this archive carefully"); warned != (name == "Secrets") {
				t.Errorf("that Secrets were not looked for is told: %v", warned)
			}
			if b.files["installation/pods/coder-k8s-1.yaml"] == "" {
				t.Error("the rest is missing")
			}
		})
	}
}

// TestReadmeListsOnlyWhatIsThere checks that the README does not describe a file for which --max-size
// had no room.
func TestReadmeListsOnlyWhatIsThere(t *testing.T) {
	k := smallServer(t)
	k.texts["/version"] = `{"gitVersion":"` + strings.Repeat("v", 1<<20) + `"}`
	b := run(t, k, "--max-size=1Mi")
	if b.code != cli.ExitPartial || b.files["versions.yaml"] != "" {
		t.Fatalf("exit code %d, versions.yaml has %d bytes", b.code, len(b.files["versions.yaml"]))
	}
	readme := b.files["README.md"]
	if strings.Contains(readme, "- `versions.yaml`: ") || !strings.Contains(readme, "- versions.yaml: it has ") {
		t.Errorf("the README describes a file that is not there, or does not list it as missing:\n%s", readme)
	}
	for _, part := range []string{"problems.yaml", "installation/", "namespaces/", "logs/"} {
		if !strings.Contains(readme, "- `"+part+"`: ") {
			t.Errorf("the README does not describe %s:\n%s", part, readme)
		}
	}
}

// A response that ends at the timeout may be incomplete, which would not be visible in the
// archive.
func TestWhatEndsWithTheTimeIsLeftOut(t *testing.T) {
	for _, begun := range []string{"", "the first line\n"} {
		c, ctx := cutOff(t, begun)
		if text, err := c.read(ctx, oneLog{namespace: "coder", pod: "coder-1-a", container: "coder"}, 1<<20); !errors.Is(err, context.Canceled) {
			t.Errorf("the log is %q, %v", text, err)
		}
		c, ctx = cutOff(t, begun)
		c.health(ctx, &scope{pods: []podLogs{{pod: operatorPod(), operator: true}}})
		if len(c.left) != 1 || len(c.archive.files) > 0 {
			t.Errorf("the readiness is %v, left out %q", c.archive.files, c.left)
		}
	}
}

func TestSizeIsBounded(t *testing.T) {
	k := smallServer(t)
	var long strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&long, "line %d of a long log that has much to say\n", i)
	}
	k.texts["/api/v1/namespaces/coder/pods/coder-1-a/log"] = long.String()
	b := run(t, k, "--max-size=1Mi")
	log := b.files["logs/coder/coder-1-a/coder.log"]
	if total := len(b.all()); total > 1<<20+16<<10 || len(log) < 256<<10 {
		t.Errorf("the bundle has %d bytes, the long log %d", total, len(log))
	}
	if !strings.HasPrefix(log, "[the beginning is left out, see --max-size]\nline ") || !strings.HasSuffix(log, "line 59999 of a long log that has much to say\n") {
		t.Errorf("the log begins with %.80q and ends with %q", log, log[len(log)-80:])
	}
	if b.files["logs/coder-system/coder-k8s-1/coder-k8s.log"] == "" {
		t.Error("the other log has no room")
	}
}

func TestManyWorkspaces(t *testing.T) {
	k := smallServer(t)
	for i := range mostListed + 20 {
		status := "True"
		if i == mostListed+10 {
			status = "False"
		}
		k.put(t, fmt.Sprintf(`apiVersion: aggregation.coder.com/v1alpha1
kind: CoderWorkspace
metadata: {name: coder.ada.dev-%d, namespace: coder}
status: {phase: Running, conditions: [{type: Ready, status: %q}]}`, i, status))
	}
	b := run(t, k)
	text := b.files["namespaces/coder/coderworkspaces.yaml"]
	if !strings.Contains(text, fmt.Sprintf("count: %d", mostListed+20)) || !strings.Contains(text, fmt.Sprintf("dev-%d\n", mostListed+10)) ||
		strings.Contains(text, fmt.Sprintf("dev-%d\n", mostListed+15)) {
		t.Errorf("the list is %.300s", text)
	}
	if !strings.Contains(b.files["README.md"], "20 of the 320 coderworkspaces of namespace coder") {
		t.Errorf("the README does not say what is left out:\n%s", b.files["README.md"])
	}
}

func TestCommandLine(t *testing.T) {
	k := smallServer(t)
	existing := filepath.Join(t.TempDir(), "there.tar.gz")
	if err := os.WriteFile(existing, []byte("somebody's"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		args []string
		code int
		want string
	}{
		"a size that is none":   {[]string{"--max-size=lots"}, cli.ExitUsage, `--max-size is "lots"`},
		"a size too small":      {[]string{"--max-size=10"}, cli.ExitUsage, `give at least 1Mi`},
		"no time":               {[]string{"--timeout=0s"}, cli.ExitUsage, "--timeout is 0s"},
		"no past":               {[]string{"--since=-1h"}, cli.ExitUsage, "--since is -1h0m0s"},
		"no namespace":          {[]string{"--operator-namespace="}, cli.ExitUsage, "--operator-namespace is empty"},
		"an argument":           {[]string{"everything"}, cli.ExitUsage, `"everything" is one argument too many`},
		"a file that is there":  {[]string{"-o", existing}, cli.ExitFailure, "choose another name with --output"},
		"no cluster":            {[]string{"--kubeconfig=/nowhere"}, cli.ExitFailure, "finding the cluster"},
		"nobody there":          {[]string{"--server=https://127.0.0.1:1"}, cli.ExitFailure, "kube-apiserver at https://127.0.0.1:1 does not respond"},
		"a context that is not": {[]string{"--context=other"}, cli.ExitFailure, "finding the cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			b := run(t, k, test.args...)
			if b.code != test.code || !strings.Contains(b.stderr, test.want) {
				t.Errorf("exit code %d, want %d and %q in\n%s", b.code, test.code, test.want, b.stderr)
			}
		})
	}
	if content := readAll(t, existing); string(content) != "somebody's" {
		t.Errorf("the file that was there has %q", content)
	}
}

// TestStandardOutput checks that standard output contains only the archive.
func TestStandardOutput(t *testing.T) {
	var out, errs bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errs}
	none := func(context.Context, *rest.Config, installation.Expectation) ([]installation.Problem, error) {
		return nil, nil
	}
	cmd := command(streams, func() time.Time { return noon }, none)
	code := cli.Execute(t.Context(), cmd, []string{"--kubeconfig", smallServer(t).kubeconfig(t), "-o", "-"}, streams)
	if code != cli.ExitOK || !bytes.HasPrefix(out.Bytes(), []byte{0x1f, 0x8b}) {
		t.Errorf("exit code %d, output begins with %.20q: %s", code, out.Bytes(), errs.String())
	}
}

// An object is found through its owner, so the owner has to be read before.
func TestOwnersAreReadBeforeWhatTheyOwn(t *testing.T) {
	var order []string
	for _, resource := range children() {
		order = append(order, resource.Resource)
	}
	for owner, owned := range map[string]string{
		"deployments": "replicasets", "replicasets": "pods", "jobs": "pods", "pods": "persistentvolumeclaims",
	} {
		first, second := slices.Index(order, owner), slices.Index(order, owned)
		if first < 0 || second < 0 || first > second {
			t.Errorf("%s are read at %d and %s at %d of %v", owner, first, owned, second, order)
		}
	}
}
