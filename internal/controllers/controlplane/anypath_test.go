package controlplane

import (
	"encoding/json"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

var (
	seeds     = flag.Uint64("seeds", 30, "how many pairs of specs to try")
	firstSeed = flag.Uint64("first-seed", 0, "the seed of the first pair")
)

// TestAnyPathSameEnd checks that a control plane that changes from spec A to spec B reaches the
// same state, in the cluster and in Coder, as one that has spec B from the beginning.
func TestAnyPathSameEnd(t *testing.T) {
	kubetest.SkipWithRace(t)
	t.Parallel()
	for seed := *firstSeed; seed < *firstSeed+*seeds; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			d := newSpecGenerator(seed)
			a, b := d.spec(), d.spec()
			straight, walked := walk(t, b), walk(t, a, b)
			if diff := cmp.Diff(strings.Split(straight, "\n"), strings.Split(walked, "\n")); diff != "" {
				from, _ := json.Marshal(a)
				to, _ := json.Marshal(b)
				t.Errorf("seed %d\nfrom %s\nto   %s\n(-from scratch +by the way)\n%s", seed, from, to, diff)
			}
		})
	}
}

// walk applies the specs to a control plane one after the other, each until there is nothing left
// to do. It returns the final state.
func walk(t *testing.T, specs ...coderv1alpha1.CoderControlPlaneSpec) string {
	t.Helper()
	cp := newControlPlane()
	cp.Spec = *specs[0].DeepCopy()
	f := newScene(t, cp)
	f.anyPort = true
	for _, obj := range surroundings() {
		f.Create(obj)
	}
	other := f.licenseFor(200)
	f.licenses[other] = "other"
	secret := &corev1.Secret{}
	f.Get("license", secret)
	secret.Data["other"] = []byte(other)
	f.Update(secret)
	own := false
	for i, spec := range specs {
		if spec.OperatorAccess.TokenSecretRef != nil && !own {
			f.addToken()
			own = true
		}
		if i > 0 {
			f.Edit(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec = *spec.DeepCopy() })
		}
		f.live()
	}
	return f.end(&specs[len(specs)-1])
}

// surroundings returns the objects to which specs refer.
func surroundings() []*corev1.Secret {
	return []*corev1.Secret{
		secretOf("some", map[string]string{"zone": "a", "ca.crt": "c", "psk": "p"}),
		secretOf("db-2", map[string]string{"url": "postgres://coder:" + password + "@db-2:5432/coder"}),
		secretOf("pg-app", map[string]string{"uri": "postgres://coder:" + password + "@pg:5432/coder"}),
		secretOf("tls-2", map[string]string{"tls.crt": "c", "tls.key": "k"}),
	}
}

// end returns the picture without what a history leaves behind on purpose: the users of Coder,
// which account is the first, and the last known state of a Coder that is no longer called.
func (f *licensedFixture) end(spec *coderv1alpha1.CoderControlPlaneSpec) string {
	f.T.Helper()
	unasked := *spec.Replicas == 0 || spec.OperatorAccess.Disabled
	var kept []string
	for _, part := range strings.Split(f.picture(f.licenses), "--- ") {
		switch {
		case strings.HasPrefix(part, "*v1.ServiceAccount\n") && !strings.Contains(part, "ownerReferences"):
			// The operator keeps this ServiceAccount when the spec disables its creation.
			continue
		case strings.HasPrefix(part, "*v1.Job\n") && unasked && !spec.OperatorAccess.Disabled:
			// It started while the previous pods still answered.
			continue
		case strings.HasPrefix(part, "*v1.Secret\n"):
			if unasked && !spec.OperatorAccess.Disabled || !strings.Contains(part, "ownerReferences") || strings.Contains(part, "-initial-admin\n") || strings.Contains(part, "-operator-credentials\n") {
				continue
			}
		case strings.HasPrefix(part, "*v1alpha1.CoderControlPlane\n"):
			part = f.withoutRecords(part, unasked)
		}
		part, _, _ = strings.Cut(part, "\nCoder ")
		kept = append(kept, accountNumber.ReplaceAllString(strings.TrimSpace(part), "$1")+"\n")
	}
	if !unasked {
		kept = append(kept, f.open()...)
	}
	return strings.Join(kept, "--- ")
}

// accountNumber is the suffix of the name of an account that a Job created.
var accountNumber = regexp.MustCompile(`(token-user: coder-k8s-operator)-[0-9a-f]{8}`)

// open returns the licenses in Coder, and whether Coder accepts the token that the status names.
func (f *licensedFixture) open() []string {
	var out []string
	for _, l := range f.coder.Licenses() {
		out = append(out, "license "+f.licenses[l.Text])
	}
	if ref := f.Object().Status.OperatorTokenSecretRef; ref != nil {
		secret := &corev1.Secret{}
		f.Get(ref.Name, secret)
		out = append(out, fmt.Sprintf("token taken: %t", f.takes(string(secret.Data[ref.Key]))))
	}
	return out
}

// withoutRecords returns a part of the picture with only the results of the last pass.
func (f *licensedFixture) withoutRecords(part string, unasked bool) string {
	f.T.Helper()
	head, text, _ := strings.Cut(part, "\n")
	cp := &coderv1alpha1.CoderControlPlane{}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(text, "…", "2026-11-20T12:00:00Z")), cp); err != nil {
		f.T.Fatal(err)
	}
	if cp.Status.ObjectNamePrefix != nil && *cp.Status.ObjectNamePrefix == "" {
		// It is decided once, whether the operator has access or not.
		cp.Status.ObjectNamePrefix = nil
	}
	if unasked {
		cp.Status.Version, cp.Status.Image, cp.Status.OperatorAccessReady = "", "", false
		cp.Status.EverServed = nil
		cp.Status.OperatorTokenExpiresAt, cp.Status.OperatorTokenSecretRef = nil, nil
		cp.Status.LicenseTier, cp.Status.HighAvailabilityEntitlement = "", ""
		cp.Status.WorkspaceProxyEntitlement, cp.Status.ExternalProvisionerDaemonsEntitlement = "", ""
		cp.Status.LicenseUUIDs, cp.Status.LicenseExpiresAt, cp.Status.LicenseLastApplied, cp.Status.LicenseLastAppliedHash = nil, nil, nil, ""
		var kept []metav1.Condition
		for _, c := range cp.Status.Conditions {
			if !slices.Contains([]string{
				coderv1alpha1.ConditionLicenseApplied, coderv1alpha1.ConditionHighAvailabilityEntitled, coderv1alpha1.ConditionServed,
				coderv1alpha1.ConditionVersionSupported, // It is about the version, which stays too.
			}, c.Type) {
				kept = append(kept, c)
			}
		}
		cp.Status.Conditions = kept
	}
	out, err := yaml.Marshal(cp)
	if err != nil {
		f.T.Fatal(err)
	}
	return head + "\n" + string(out)
}

// runJob does the work of the Job that creates the operator's account in a Coder that already has
// users. It reports whether there was such a Job.
func (f *fixture) runJob() bool {
	f.T.Helper()
	jobs := &batchv1.JobList{}
	f.List(jobs)
	jobs.Items = slices.DeleteFunc(jobs.Items, func(job batchv1.Job) bool {
		return strings.Contains(job.Name, "-schema-") || strings.Contains(job.Name, "-image-")
	})
	if len(jobs.Items) == 0 || len(jobs.Items[0].Status.Conditions) > 0 {
		return false
	}
	own, credentials := &corev1.Secret{}, &corev1.Secret{}
	f.Get("own", own)
	f.Get("coder-operator-credentials", credentials)
	owner, err := coderd.New(coderd.Config{URL: f.coder.URL, Token: string(own.Data["token"])})
	if err != nil {
		f.T.Fatal(err)
	}
	field := func(key string) string { return string(credentials.Data[key]) }
	org, err := owner.OrganizationByName(f.T.Context(), coderd.DefaultOrganization)
	if err != nil {
		f.T.Fatal(err)
	}
	user, err := owner.CreateUser(f.T.Context(), coderd.NewUser{
		Username: field("username"), Email: field("email"), Password: field("password"), OrganizationIDs: []uuid.UUID{org.ID},
	})
	if err == nil {
		err = owner.SetRoles(f.T.Context(), user.Username, []string{"owner"})
	}
	if err != nil {
		f.T.Fatal(err)
	}
	job := &jobs.Items[0]
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	f.UpdateStatus(job)
	return true
}
