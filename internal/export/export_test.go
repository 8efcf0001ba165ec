package export

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
)

var update = flag.Bool("update", false, "write the golden files anew")

// result is the result of a run.
type result struct {
	stdout, stderr string
	code           int
}

func run(t *testing.T, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errs}
	code := cli.Execute(t.Context(), NewCommand(streams), args, streams)
	return result{out.String(), errs.String(), code}
}

// kubeAPI serves lists, or invalid responses, by resource.
type kubeAPI struct {
	templates  []aggregationv1alpha1.CoderTemplate
	workspaces []aggregationv1alpha1.CoderWorkspace
	users      []aggregationv1alpha1.CoderUser
	// broken are items that cannot be decoded as their kind.
	broken []any
	// failures are the status codes of list requests, by resource.
	failures map[string]int
	warning  string
	// asked are the requested URLs.
	asked []string
}

// ServeHTTP implements http.Handler.
func (k *kubeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.asked = append(k.asked, r.URL.String())
	resource := filepath.Base(r.URL.Path)
	w.Header().Set("Content-Type", "application/json")
	if k.warning != "" {
		w.Header().Set("Warning", `299 - "`+k.warning+`"`)
	}
	if code := k.failures[resource]; code != 0 {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code),
			Reason: map[int]metav1.StatusReason{403: metav1.StatusReasonForbidden, 404: metav1.StatusReasonNotFound}[code], Message: "the server says " + http.StatusText(code),
		})
		return
	}
	items := []any{}
	switch resource {
	case "codertemplates":
		for _, t := range k.templates {
			t.TypeMeta = metav1.TypeMeta{Kind: "CoderTemplate", APIVersion: aggregationv1alpha1.GroupVersion.String()}
			items = append(items, t)
		}
		items = append(items, k.broken...)
	case "coderworkspaces":
		for _, ws := range k.workspaces {
			ws.TypeMeta = metav1.TypeMeta{Kind: "CoderWorkspace", APIVersion: aggregationv1alpha1.GroupVersion.String()}
			items = append(items, ws)
		}
	case "coderusers":
		for _, u := range k.users {
			items = append(items, u)
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "List", "apiVersion": aggregationv1alpha1.GroupVersion.String(), "metadata": map[string]any{}, "items": items,
	})
}

// start starts the server and returns the arguments for the command.
func (k *kubeAPI) start(t *testing.T) []string {
	t.Helper()
	server := httptest.NewServer(k)
	t.Cleanup(server.Close)
	config := clientcmdapi.NewConfig()
	config.Clusters["fake"] = &clientcmdapi.Cluster{Server: server.URL}
	config.Contexts["fake"] = &clientcmdapi.Context{Cluster: "fake", Namespace: "coder"}
	config.CurrentContext = "fake"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return []string{"--kubeconfig", path}
}

func metaOf(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "coder", Name: name, UID: "u", ResourceVersion: "7", Generation: 3,
		Labels: map[string]string{
			"team": "platform", aggregationv1alpha1.LabelControlPlaneName: "coder", aggregationv1alpha1.LabelControlPlaneNamespace: "coder",
		},
		Annotations:     map[string]string{corev1.LastAppliedConfigAnnotation: `{"spec":{}}`, "example.com/owner": "Ada"},
		Finalizers:      []string{aggregationv1alpha1.FinalizerWorkspace},
		OwnerReferences: []metav1.OwnerReference{{Name: "somebody"}},
	}
}

// inputs contains a variable and a parameter of each type.
const inputs = `
variable "region" {
  default = "eu"
}
variable "license_text" {
  sensitive = true
}
variable "db_password" {}
data "coder_parameter" "size" {
  name = "size"
}
data "coder_parameter" "pin" {
  name    = "pin"
  styling = jsonencode({ mask_input = true })
}
`

func fullTemplate() aggregationv1alpha1.CoderTemplate {
	return aggregationv1alpha1.CoderTemplate{
		ObjectMeta: metaOf("coder.full"),
		Spec: aggregationv1alpha1.CoderTemplateSpec{
			Organization: "coder", VersionID: "11111111-1111-1111-1111-111111111111", DisplayName: "Full", VersionName: "v1",
			Files: map[string]string{"main.tf": inputs, "README.md": "# Full\n\n  indented: \"yes\"\n"},
			Variables: []aggregationv1alpha1.TemplateVariable{
				{Name: "region", Value: "us"},
				{Name: "license_text", Value: "top secret license"},
				{Name: "db_password", Value: "hunter2"},
				{Name: "unheard_of", Value: "what is this"},
				{Name: "kept", ValueFrom: &aggregationv1alpha1.TemplateVariableSource{
					SecretKeyRef: &aggregationv1alpha1.SecretKeySelector{Name: "inputs", Key: "kept"},
				}},
			},
			DefaultTTLMillis: ptr.To[int64](0),
		},
		Status: aggregationv1alpha1.CoderTemplateStatus{
			ID: "x", OrganizationName: "coder", TemplateName: "full",
			Source: &aggregationv1alpha1.TemplateSource{Inline: true}, Deprecated: true, DeprecationMessage: "use another",
		},
	}
}

func fullWorkspace() aggregationv1alpha1.CoderWorkspace {
	return aggregationv1alpha1.CoderWorkspace{
		ObjectMeta: metaOf("coder.ada.dev"),
		Spec: aggregationv1alpha1.CoderWorkspaceSpec{
			Organization: "coder", TemplateName: "full", TemplateVersionID: "11111111-1111-1111-1111-111111111111",
			Running: ptr.To(true), Dormant: ptr.To(true), AutomaticUpdates: "never",
			TTLMillis: ptr.To[int64](60_000), AutostartSchedule: ptr.To("CRON_TZ=UTC 30 9 * * 1-5"),
			SharedWith: []aggregationv1alpha1.WorkspaceShare{{User: "bo", Role: "use"}},
			Parameters: []aggregationv1alpha1.WorkspaceParameter{
				{Name: "size", Value: "large"}, {Name: "pin", Value: "4711"}, {Name: "note", Value: "ghp_aB3dE5gH7jkL9mN1pQ3rS5tU7vW9xY1z"},
			},
		},
		Status: aggregationv1alpha1.CoderWorkspaceStatus{WorkspaceName: "dev", OwnerName: "ada", OrganizationName: "coder", TemplateName: "full", Outdated: true},
	}
}

// TestManifests compares the complete output for objects with all fields.
func TestManifests(t *testing.T) {
	plain := fullWorkspace()
	plain.Name, plain.Spec.Parameters, plain.Spec.Dormant, plain.Status.Outdated = "coder.ada.plain", plain.Spec.Parameters[:1], ptr.To(false), false
	plain.Spec.TTLMillis, plain.Spec.AutostartSchedule, plain.Status.WorkspaceName = ptr.To[int64](0), ptr.To(""), "plain"
	deleted, prebuilt := fullWorkspace(), fullWorkspace()
	deleted.Name, deleted.DeletionTimestamp = "coder.ada.gone", ptr.To(metav1.NewTime(time.Unix(1_700_000_000, 0)))
	prebuilt.Name, prebuilt.Status.OwnerName = "coder.prebuilds.one", "prebuilds"
	large := fullTemplate()
	large.Name, large.Spec.Files, large.Spec.Variables, large.Status.Deprecated = "coder.large", nil, nil, false
	large.Status.TemplateName, large.Status.Source = "large", nil
	meta.SetStatusCondition(&large.Status.Conditions, metav1.Condition{
		Type: aggregationv1alpha1.ConditionFilesAvailable, Status: metav1.ConditionFalse, Reason: aggregationv1alpha1.ReasonFilesTooLarge, Message: "the source is too large",
	})
	k := &kubeAPI{
		// The output does not have the server's order.
		templates:  []aggregationv1alpha1.CoderTemplate{large, fullTemplate()},
		workspaces: []aggregationv1alpha1.CoderWorkspace{plain, prebuilt, deleted, fullWorkspace()},
	}
	got := run(t, k.start(t)...)
	if got.code != cli.ExitPartial {
		t.Errorf("exit code %d, want %d", got.code, cli.ExitPartial)
	}
	golden(t, "manifests.yaml", got.stdout)
	golden(t, "report.txt", got.stderr)
	for _, secret := range []string{"top secret", "hunter2", "what is this", "4711", "ghp_"} {
		if strings.Contains(got.stdout+got.stderr, secret) {
			t.Errorf("%q is told", secret)
		}
	}
}

// TestFirstNames checks that names that were changed in Coder are reported, because another Coder
// refuses the first names or has another owner for them.
func TestFirstNames(t *testing.T) {
	workspace := func(name, owner, current string) aggregationv1alpha1.CoderWorkspace {
		ws := fullWorkspace()
		ws.Name, ws.Spec.Parameters, ws.Status.Outdated = name, nil, false
		ws.Status.OwnerName, ws.Status.WorkspaceName = owner, current
		return ws
	}
	moved := workspace("coder.bob.moved", "bob", "moved")
	moved.Status.OrganizationName, moved.Status.TemplateName = "acme", "fuller"
	r := &report{}
	for _, ws := range []aggregationv1alpha1.CoderWorkspace{
		workspace("coder.ada.dev", "Ada", "dev"), workspace("second.coder.ada.dev", "ada", "dev"), workspace("coder.bob.dev", "robert", "dev"),
		workspace("coder.prebuilds.prebuild-x", "ada", "gpu"), workspace("second.coder.ada.dev--1a2b3c4d", "ada", "dev"), moved,
	} {
		workspaceManifest(ws, nil, r)
	}
	tmpl := fullTemplate()
	tmpl.Status.TemplateName, tmpl.Status.Deprecated = "fuller", false
	tmpl.Status.Candidate = &aggregationv1alpha1.TemplateCandidate{Name: "v2"}
	templateManifest(tmpl, r)
	user := aggregationv1alpha1.CoderUser{ObjectMeta: metaOf("bob")}
	user.Spec.LoginType, user.Status.Username = "oidc", "robert"
	userManifest(user, r)
	const keeps = ": it keeps the names that it had first in Coder; for another Coder, change metadata.name to "
	want := []string{
		"CoderWorkspace coder/coder.bob.dev" + keeps + "coder.robert.dev",
		"CoderWorkspace coder/coder.prebuilds.prebuild-x" + keeps + "coder.ada.gpu",
		"CoderWorkspace coder/second.coder.ada.dev--1a2b3c4d" + keeps + "second.coder.ada.dev",
		"CoderWorkspace coder/coder.bob.moved" + keeps + "acme.bob.moved, spec.organization to acme, spec.templateName to fuller",
		"CoderTemplate coder/coder.full" + keeps + "coder.fuller",
		"CoderTemplate coder/coder.full: its files are those of the candidate v2, which is not active; another Coder makes them active",
		"CoderUser coder/bob" + keeps + "robert",
	}
	if diff := cmp.Diff(want, r.notes); diff != "" {
		t.Errorf("the notes (-want +got):\n%s", diff)
	}
}

// TestMaskedParameters checks that a value is exported only if it is known not to be masked.
func TestMaskedParameters(t *testing.T) {
	for name, test := range map[string]struct {
		change   func(*aggregationv1alpha1.CoderTemplate)
		refused  int
		exported bool
	}{
		"source known":       {exported: true},
		"renamed in Coder":   {change: func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Name = "coder.earlier" }, exported: true},
		"with a binary file": {change: func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Status.Source.Inline = false }, exported: true},
		"source too large to show": {change: func(tmpl *aggregationv1alpha1.CoderTemplate) {
			tmpl.Status.Source.Inline, tmpl.Spec.Files = false, nil
		}},
		"source not read":        {change: func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Status.Source = nil }},
		"of another template":    {change: func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Status.TemplateName = "other" }},
		"templates not readable": {refused: http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			tmpl, ws := fullTemplate(), fullWorkspace()
			ws.Spec.Parameters = ws.Spec.Parameters[:2]
			if test.change != nil {
				test.change(&tmpl)
			}
			k := &kubeAPI{
				templates: []aggregationv1alpha1.CoderTemplate{tmpl}, workspaces: []aggregationv1alpha1.CoderWorkspace{ws},
				failures: map[string]int{"codertemplates": test.refused},
			}
			got := run(t, append(k.start(t), "--workspaces")...)
			if strings.Contains(got.stdout+got.stderr, "4711") {
				t.Errorf("the masked value is told:\n%s%s", got.stdout, got.stderr)
			}
			if exported := strings.Contains(got.stdout, "value: \"large\""); exported != test.exported {
				t.Errorf("the value of a parameter that is not masked is exported: %t, want %t:\n%s", exported, test.exported, got.stdout)
			}
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs; -update writes it anew (-want +got):\n%s", path, diff)
	}
}

func TestSelection(t *testing.T) {
	other := fullWorkspace()
	other.Name, other.Status.OwnerName = "coder.bob.dev", "Bob"
	for name, test := range map[string]struct {
		args            []string
		want, wantNot   []string
		asked, notAsked string
	}{
		"templates": {
			args: []string{"--templates"}, want: []string{"name: coder.full"}, wantNot: []string{"coder.ada.dev", "coder.bob.dev"},
			asked: "codertemplates", notAsked: "coderworkspaces",
		},
		"users":         {args: []string{"--users"}, asked: "coderusers", notAsked: "codertemplates"},
		"workspaces":    {args: []string{"--workspaces"}, want: []string{"name: coder.ada.dev", "name: coder.bob.dev"}, wantNot: []string{"coder.full"}},
		"owner":         {args: []string{"--owner=bob,eve"}, want: []string{"name: coder.full", "name: coder.bob.dev"}, wantNot: []string{"coder.ada.dev"}},
		"namespace":     {args: []string{"-n", "another"}, asked: "/namespaces/another/codertemplates"},
		"all":           {args: []string{"-A"}, asked: "/v1alpha1/coderworkspaces", notAsked: "/namespaces/"},
		"control plane": {args: []string{"--control-plane=second"}, asked: "labelSelector=aggregation.coder.com%2Fcontrol-plane-name%3Dsecond"},
	} {
		t.Run(name, func(t *testing.T) {
			k := &kubeAPI{
				templates:  []aggregationv1alpha1.CoderTemplate{fullTemplate()},
				workspaces: []aggregationv1alpha1.CoderWorkspace{fullWorkspace(), other},
			}
			got, asked := run(t, append(k.start(t), test.args...)...), strings.Join(k.asked, "\n")
			for _, text := range test.want {
				if !strings.Contains(got.stdout, text) {
					t.Errorf("%q is not there", text)
				}
			}
			for _, text := range test.wantNot {
				if strings.Contains(got.stdout, text) {
					t.Errorf("%q is there", text)
				}
			}
			if !strings.Contains(asked, test.asked) || test.notAsked != "" && strings.Contains(asked, test.notAsked) {
				t.Errorf("it asked for\n%s", asked)
			}
		})
	}
}

func TestDirectory(t *testing.T) {
	k := &kubeAPI{templates: []aggregationv1alpha1.CoderTemplate{fullTemplate()}, workspaces: []aggregationv1alpha1.CoderWorkspace{fullWorkspace()}}
	args, folder := k.start(t), filepath.Join(t.TempDir(), "new", "manifests")
	report := filepath.Join(t.TempDir(), "report.txt")
	for range 2 {
		got := run(t, append(args, "-o", folder, "--report", report)...)
		if got.code != cli.ExitPartial || got.stdout != "" {
			t.Errorf("exit code %d, standard output %q: %s", got.code, got.stdout, got.stderr)
		}
	}
	whole := run(t, args...)
	var parts []string
	for _, name := range []string{"templates/coder.full.yaml", "workspaces/coder.ada.dev.yaml"} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, string(text))
	}
	if diff := cmp.Diff(whole.stdout, strings.Join(parts, "---\n")); diff != "" {
		t.Errorf("the files are not what standard output has (-stdout +files):\n%s", diff)
	}
	text, err := os.ReadFile(report)
	if err != nil || !strings.Contains(string(text), "left out: CoderTemplate coder/coder.full: spec.variables") {
		t.Errorf("the report is %q (%v)", text, err)
	}
	if got := run(t, append(args, "-A", "-o", folder)...); got.code != cli.ExitPartial {
		t.Errorf("exit code %d: %s", got.code, got.stderr)
	}
	if _, err := os.Stat(filepath.Join(folder, "coder", "templates", "coder.full.yaml")); err != nil {
		t.Error(err)
	}
}

func TestBadInput(t *testing.T) {
	for name, test := range map[string]struct {
		k    *kubeAPI
		args []string
		code int
		want []string
	}{
		"an argument": {args: []string{"everything"}, code: cli.ExitUsage, want: []string{`"everything" is one argument too many`}},
		"two scopes":  {args: []string{"-A", "-n", "x"}, code: cli.ExitUsage, want: []string{"cannot be used together"}},
		"no output":   {args: []string{"-o", ""}, code: cli.ExitUsage, want: []string{"--output is empty"}},
		"no aggregated API": {
			k: &kubeAPI{failures: map[string]int{"codertemplates": 404, "coderworkspaces": 404}}, code: cli.ExitFailure,
			want: []string{"does not serve aggregation.coder.com/v1alpha1", "install coder-k8s"},
		},
		"no right to templates": {
			k:    &kubeAPI{failures: map[string]int{"codertemplates": 403}, workspaces: []aggregationv1alpha1.CoderWorkspace{fullWorkspace()}},
			code: cli.ExitPartial, want: []string{"left out: the templates: the server says Forbidden"},
		},
		"one that is no object": {
			k: &kubeAPI{
				templates: []aggregationv1alpha1.CoderTemplate{fullTemplate()},
				broken: []any{map[string]any{
					"kind": "CoderTemplate", "apiVersion": "aggregation.coder.com/v1alpha1",
					"metadata": map[string]any{"name": "coder.odd", "namespace": "coder"}, "spec": map[string]any{"files": "text"},
				}},
			},
			code: cli.ExitPartial, want: []string{"left out: CoderTemplate coder/coder.odd: it cannot be decoded"},
		},
		"what is out of date": {
			k:    &kubeAPI{warning: "the objects are in their last known state", workspaces: []aggregationv1alpha1.CoderWorkspace{fullWorkspace()}},
			code: cli.ExitPartial, want: []string{"left out: objects may be missing or outdated: the objects are in their last known state"},
		},
		"nothing": {k: &kubeAPI{}, code: cli.ExitOK, want: []string{"There is nothing to export"}},
	} {
		t.Run(name, func(t *testing.T) {
			args := test.args
			if test.k != nil {
				args = append(test.k.start(t), args...)
			}
			got := run(t, args...)
			if got.code != test.code {
				t.Errorf("exit code %d, want %d", got.code, test.code)
			}
			for _, want := range test.want {
				if !strings.Contains(got.stderr, want) {
					t.Errorf("it does not say %q:\n%s", want, got.stderr)
				}
			}
		})
	}
}

// TestUsers are exported if that was requested, without passwords and without the operator's own account.
func TestUsers(t *testing.T) {
	user := func(name, loginType string) aggregationv1alpha1.CoderUser {
		return aggregationv1alpha1.CoderUser{
			ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: name},
			Spec:       aggregationv1alpha1.CoderUserSpec{Email: name + "@example.com", LoginType: loginType, Roles: []string{"auditor"}},
			Status:     aggregationv1alpha1.CoderUserStatus{Username: name},
		}
	}
	ada := user("ada", "password")
	ada.Spec.FullName, ada.Spec.Suspended = "Ada", ptr.To(true)
	ada.Spec.Organizations = []aggregationv1alpha1.CoderUserOrganization{{Name: "coder", Roles: []string{"organization-admin"}}}
	// What is not exported is not read either.
	k := &kubeAPI{
		users:    []aggregationv1alpha1.CoderUser{ada, user("coder-k8s-operator", "password"), user("octocat", "github")},
		failures: map[string]int{"codertemplates": 403, "coderworkspaces": 403},
	}
	got := run(t, append(k.start(t), "--users")...)
	if got.code != cli.ExitPartial || strings.Count(got.stderr, "left out: ") != 1 || !strings.Contains(got.stderr, "left out: CoderUser coder/octocat: its login type") {
		t.Errorf("exit code %d: %s", got.code, got.stderr)
	}
	const want = `# The password is not exported. Another Coder gives the user a random one that nobody knows;
# to choose it, set spec.passwordFrom to a key of a Secret.
apiVersion: aggregation.coder.com/v1alpha1
kind: CoderUser
metadata:
  name: ada
  namespace: coder
spec:
  email: ada@example.com
  fullName: Ada
  loginType: password
  organizations:
  - name: coder
    roles:
    - organization-admin
  roles:
  - auditor
  suspended: true
`
	if diff := cmp.Diff(want, got.stdout); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	k.failures = nil
	if without := run(t, k.start(t)...); strings.Contains(without.stdout, "CoderUser") {
		t.Errorf("users are exported although that was not requested:\n%s", without.stdout)
	}
}
