package upgrade

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

const repository = "ghcr.io/coder/coder:"

// TestDecide has one line for each change of an image. An empty want allows it.
func TestDecide(t *testing.T) {
	const digest, other = "ghcr.io/coder/coder@sha256:aa", "ghcr.io/coder/coder@sha256:bb"
	for name, c := range map[string]struct {
		running, image, wanted, allowed string
		want                            string
		stopFirst                       bool
	}{
		"first install":                            {"", "", repository + "v2.36.1", "", "", false},
		"first install of a digest":                {"", "", digest, "", "", false},
		"first install that crashes, lower":        {"", repository + "v2.36.1", repository + "v2.30.0", "", "", true},
		"first install that crashes, same minor":   {"", repository + "v2.36.1", repository + "v2.36.0", "", "", false},
		"first install that crashes, unknown":      {"", repository + "v2.36.1", repository + "main", "", "", true},
		"nothing changes":                          {"v2.36.1+7bd778d", repository + "v2.36.1", repository + "v2.36.1", "", "", false},
		"nothing changes, latest":                  {"v2.36.1", repository + "latest", repository + "latest", "", "", false},
		"another registry, same tag":               {"v2.36.1", "mirror:5000/coder:main", "ghcr.io/coder/coder:main", "", "", false},
		"a webhook adds the digest":                {"v2.36.1", repository + "v2.36.1@sha256:aa", repository + "v2.36.1", "", "", false},
		"another registry, same digest":            {"v2.36.1", "mirror:5000/coder@sha256:aa", digest, "", "", false},
		"no tag is latest":                         {"v2.36.1", "coder", "mirror/coder:latest", "", "", false},
		"a patch":                                  {"v2.36.0", repository + "v2.36.0", repository + "v2.36.1", "", "", false},
		"a patch back":                             {"v2.36.1+7bd778d", repository + "v2.36.1", repository + "v2.36.0", "", "", false},
		"a patch, tags without v":                  {"v2.36.0", "coder:2.36.0", "coder:2.36.1", "", "", false},
		"a new minor":                              {"v2.30.0", repository + "v2.30.0", repository + "v2.36.1", "", "", true},
		"a long-term release to the next":          {"v2.29.1", repository + "v2.29.1", repository + "v2.34.8", "", "", true},
		"a new minor, half rolled":                 {"v2.30.0", repository + "v2.36.0", repository + "v2.36.1", "", "", true},
		"a new minor that cannot be pulled, back":  {"v2.30.0", repository + "v2.99.0", repository + "v2.30.0", "", "", true},
		"from a digest to a new minor":             {"v2.30.0", digest, repository + "v2.36.1", "", "", true},
		"from a digest to a patch":                 {"v2.30.0", digest, repository + "v2.30.1", "", "", false},
		"an older minor":                           {"v2.36.1", repository + "v2.36.1", repository + "v2.30.0", "", coderv1alpha1.ReasonDowngrade, true},
		"an older major":                           {"v3.0.0", repository + "v3.0.0", repository + "v2.36.0", "", coderv1alpha1.ReasonDowngrade, true},
		"older than what answered, half rolled":    {"v2.36.1", repository + "v2.30.0", repository + "v2.30.1", "", coderv1alpha1.ReasonDowngrade, true},
		"to a pre-release of the same minor":       {"v2.36.1", repository + "v2.36.1", repository + "v2.36.0-rc.1", "", coderv1alpha1.ReasonDowngrade, true},
		"an image with a suffix":                   {"v2.36.1", repository + "v2.36.1", "mirror/coder:v2.36.1-fips", "", "", false},
		"an image with a suffix, older":            {"v2.36.1", repository + "v2.36.1", "mirror/coder:v2.30.0-fips", "", coderv1alpha1.ReasonDowngrade, true},
		"from a pre-release":                       {"v2.36.0-rc.1", repository + "v2.36.0-rc.1", repository + "v2.36.0", "", "", true},
		"an older minor, allowed":                  {"v2.36.1", repository + "v2.36.1", repository + "v2.30.0", "2.30.0", "", true},
		"an older minor, allowed by tag":           {"v2.36.1", repository + "v2.36.1", repository + "v2.30.0", "v2.30.0", "", true},
		"an older minor, another one is allowed":   {"v2.36.1", repository + "v2.36.1", repository + "v2.30.0", "v2.30.1", coderv1alpha1.ReasonDowngrade, true},
		"another major":                            {"v2.36.1", repository + "v2.36.1", repository + "v3.0.0", "", coderv1alpha1.ReasonUnsupportedUpgrade, true},
		"another major, allowed":                   {"v2.36.1", repository + "v2.36.1", repository + "v3.0.0", "v3.0.0", "", true},
		"to latest":                                {"v2.36.1", repository + "v2.36.1", repository + "latest", "", coderv1alpha1.ReasonVersionUnknown, true},
		"to a digest":                              {"v2.36.1", repository + "v2.36.1", digest, "", coderv1alpha1.ReasonVersionUnknown, true},
		"from a digest to another":                 {"v2.36.1", digest, other, "", coderv1alpha1.ReasonVersionUnknown, true},
		"from a digest to another, allowed":        {"v2.36.1", digest, other, "sha256:bb", "", true},
		"from a digest to another, named in full":  {"v2.36.1", digest, other, other, "", true},
		"a moving tag with another digest":         {"v2.36.1", "coder:main@sha256:aa", "coder:main@sha256:bb", "sha256:aa", coderv1alpha1.ReasonVersionUnknown, true},
		"from a digest to another, wrong one":      {"v2.36.1", digest, other, "sha256:aa", coderv1alpha1.ReasonVersionUnknown, true},
		"a date is no version":                     {"v2.36.1", repository + "v2.36.1", repository + "20261128", "", coderv1alpha1.ReasonVersionUnknown, true},
		"a moving tag is no version":               {"v2.36.1", repository + "v2.36.1", repository + "v2.37", "", coderv1alpha1.ReasonVersionUnknown, true},
		"a Coder that was built without a version": {"v0.0.0-devel+7bd778d", "coder:dev-1", repository + "v2.36.1", "", coderv1alpha1.ReasonVersionUnknown, true},
		"Coder does not tell its version":          {"sha256:aa", digest, repository + "v2.36.1", "", coderv1alpha1.ReasonVersionUnknown, true},
	} {
		t.Run(name, func(t *testing.T) {
			got := Decide(Facts{Running: c.running, Image: c.image, Wanted: c.wanted, Allowed: c.allowed})
			if got.Reason != c.want || got.StopFirst != c.stopFirst || (got.Message == "") != (c.want == "") {
				t.Errorf("%+v, want reason %q, StopFirst %v", got, c.want, c.stopFirst)
			}
			for _, part := range []string{c.image, c.running, `coder.com/allow-version: "` + Reference(c.wanted) + `"`} {
				if c.want != "" && !strings.Contains(got.Message, part) {
					t.Errorf("message %q does not contain %q", got.Message, part)
				}
			}
		})
	}
}

// The annotation of a refusal allows exactly the image that was refused.
func TestTheMessageNamesWhatAllowsIt(t *testing.T) {
	for _, wanted := range []string{repository + "v2.30.0", repository + "latest", "coder@sha256:aa", "coder", "coder:v2.30.0@sha256:aa", "coder:main@sha256:aa"} {
		f := Facts{Running: "v2.36.1", Image: repository + "v2.36.1", Wanted: wanted}
		if Decide(f).Reason == "" {
			t.Errorf("%s is allowed", wanted)
		}
		if f.Allowed = Reference(wanted); Decide(f).Reason != "" {
			t.Errorf("%s is refused with the annotation %q", wanted, f.Allowed)
		}
		if f.Wanted = repository + "v2.29.1"; Decide(f).Reason == "" {
			t.Errorf("the annotation %q allows %s", f.Allowed, f.Wanted)
		}
	}
}

func TestFactsOf(t *testing.T) {
	cp := &coderv1alpha1.CoderControlPlane{}
	cp.Spec.Image, cp.Annotations = repository+"v2.36.1", map[string]string{"coder.com/allow-version": "x"}
	if got, want := FactsOf(cp), (Facts{Wanted: repository + "v2.36.1", Allowed: "x"}); got != want {
		t.Errorf("nothing ran yet: %+v, want %+v", got, want)
	}
	cp.Status.Version, cp.Status.Image = "v2.30.0", "coder:v2.31.1"
	if got := FactsOf(cp).Running; got != "v2.30.0" {
		t.Errorf("Coder answered: %q", got)
	}
	cp.Spec.OperatorAccess.Disabled = true
	if got := FactsOf(cp).Running; got != "v2.31.1" {
		t.Errorf("Coder is not asked any more: %q", got)
	}
}

func TestImageOf(t *testing.T) {
	for _, c := range [][3]string{
		{"2.36.1", "ghcr.io/coder/coder:v2.30.0", "ghcr.io/coder/coder:v2.36.1"},
		{"v2.36.1", "mirror:5000/coder", "mirror:5000/coder:v2.36.1"},
		{"v2.36.1", "mirror:5000/coder:v2.30.0@sha256:aa", "mirror:5000/coder:v2.36.1"},
		{"latest", "coder:v2.30.0", "coder:latest"},
		{"mirror/coder:2.36.1", "coder:v2.30.0", "mirror/coder:2.36.1"},
		{"coder@sha256:aa", "coder:v2.30.0", "coder@sha256:aa"},
	} {
		if got := ImageOf(c[0], c[1]); got != c[2] {
			t.Errorf("%s in place of %s is %s, want %s", c[0], c[1], got, c[2])
		}
	}
}

// TestPhases has one line for each change that could go through the phases of an upgrade.
func TestPhases(t *testing.T) {
	const from, to = repository + "v2.30.0", repository + "v2.36.1"
	for name, c := range map[string]struct {
		facts Facts
		want  bool
	}{
		"a new minor version":                  {Facts{Running: "v2.30.0", Image: from, Answered: from, Wanted: to}, true},
		"a patch":                              {Facts{Running: "v2.30.0", Image: from, Answered: from, Wanted: repository + "v2.30.1"}, false},
		"before any Coder answered":            {Facts{Image: from, Wanted: to}, false},
		"back to the image that answered":      {Facts{Running: "v2.30.0", Image: to, Answered: from, Wanted: from}, false},
		"from one that never answered":         {Facts{Running: "v2.30.0", Image: to, Answered: from, Wanted: repository + "v2.37.0"}, true},
		"a downgrade":                          {Facts{Running: "v2.36.1", Image: to, Answered: to, Wanted: from}, false},
		"a downgrade that is allowed":          {Facts{Running: "v2.36.1", Image: to, Answered: to, Wanted: from, Allowed: "2.30.0"}, true},
		"an unknown version that is allowed":   {Facts{Running: "v2.36.1", Image: to, Answered: to, Wanted: "coder:main", Allowed: "main"}, true},
		"nothing changes":                      {Facts{Running: "v2.36.1", Image: to, Answered: to, Wanted: to}, false},
		"another registry with the same image": {Facts{Running: "v2.36.1", Image: to, Answered: to, Wanted: "mirror/coder:v2.36.1"}, false},
	} {
		if got := Decide(c.facts); got.Phases != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A Coder from before 2.39 must not run beside a newer one, so another control plane with the same database is in the way.
func TestQuotasNeedAnOutage(t *testing.T) {
	result := func(f Facts) Result {
		for _, check := range Decide(f).Checks {
			if check.Name == CheckQuotas {
				return check.Result
			}
		}
		return ""
	}
	for name, c := range map[string]struct {
		running, wanted, beside, allowed string
		want                             Result
	}{
		"into 2.39":                  {"v2.38.4", "v2.39.0", "", "", Passed},
		"beside another":             {"v2.38.4", "v2.40.1", "dev", "", Failed},
		"beside another, to a 3":     {"v2.38.4", "v3.0.0", "dev", "", Failed},
		"beside another, allowed":    {"v2.38.4", "v2.39.0", "dev", "2.39.0", Overridden},
		"before":                     {"v2.30.0", "v2.38.0", "dev", "", ""},
		"since":                      {"v2.39.0", "v2.40.0", "dev", "", ""},
		"from a version not known":   {"main", "v2.39.0", "dev", "", ""},
		"a pre-release counts as it": {"v2.38.0", "v2.39.0-rc.1", "dev", "", Failed},
	} {
		f := Facts{Running: c.running, Image: repository + c.running, Answered: repository + c.running, Wanted: repository + c.wanted, Overlapping: c.beside, Allowed: c.allowed}
		if got := result(f); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if d := Decide(f); c.want == Passed && !d.Phases || c.want == Failed && (d.Reason == "" || d.Phases) {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func TestSharing(t *testing.T) {
	plane := func(name, secret, running string, replicas int32) coderv1alpha1.CoderControlPlane {
		cp := coderv1alpha1.CoderControlPlane{}
		cp.Name, cp.UID, cp.Status.Version, cp.Spec.Replicas = name, types.UID(name), running, &replicas
		cp.Spec.Database = &coderv1alpha1.DatabaseSpec{SecretRef: &coderv1alpha1.DatabaseSecretReference{Name: secret}}
		return cp
	}
	all := []coderv1alpha1.CoderControlPlane{
		plane("coder", "db", "v2.38.0", 1), plane("other", "db-2", "v2.38.0", 1), plane("new", "db", "v2.39.1", 1), plane("stopped", "db", "v2.38.0", 0), {},
	}
	others := Sharing(&all[0], all)
	if len(others) != 2 || others[0].Name != "new" || others[1].Name != "stopped" {
		t.Errorf("the others are %+v", others)
	}
	if got := Overlapping(others); got != "" {
		t.Errorf("%q overlaps", got)
	}
	if got := Overlapping(append(others, plane("unknown", "db", "", 1))); got != "unknown" {
		t.Errorf("%q overlaps", got)
	}
}

func TestPostgreSQL(t *testing.T) {
	f := Facts{Wanted: repository + "v2.36.1"}
	for major, want := range map[int64]Result{0: Warning, 9: Failed, 12: Failed, 13: Passed, 18: Passed} {
		if got := PostgreSQL(f, major); got.Result != want {
			t.Errorf("%d: %+v", major, got)
		}
	}
	f.Allowed = "2.36.1"
	if got := PostgreSQL(f, 12); got.Result != Overridden {
		t.Errorf("with the annotation: %+v", got)
	}
}

// The annotation names one version, and one backup.
func TestExternalBackup(t *testing.T) {
	const image = repository + "v2.36.1"
	for value, want := range map[string]string{
		"v2.36.1/before": "before", "2.36.1/arn:aws:rds:a/b": "arn:aws:rds:a/b", "v2.36.0/before": "", "before": "", "v2.36.1/": "", "v2.36.1": "", "": "", "/before": "",
		"v2.36.1/used": "", "2.36.1/used": "", "v2.36.1/" + strings.Repeat("a", 513): "",
	} {
		cp := &coderv1alpha1.CoderControlPlane{}
		cp.Namespace, cp.Name, cp.Annotations = "coder", "dev", map[string]string{coderv1alpha1.AnnotationUpgradeBackup: value}
		cp.Status.LastExternalBackup = "v2.36.1/used"
		name, missing := ExternalBackup(cp, image)
		if name != want || (missing == "") != (want != "") || len(missing) > 1000 {
			t.Errorf("%.50q: %q, %q", value, name, missing)
		}
		if want == "" && !strings.Contains(missing, "kubectl annotate -n coder codercontrolplane dev --overwrite coder.com/upgrade-backup=v2.36.1/NAME") {
			t.Errorf("%.50q: the message is %q", value, missing)
		}
	}
}

func TestScheduleOf(t *testing.T) {
	schedule := func(name, of string, created int64) coderv1alpha1.CoderBackupSchedule {
		s := coderv1alpha1.CoderBackupSchedule{}
		s.Name, s.CreationTimestamp, s.Spec.ControlPlaneRef.Name = name, metav1.Unix(created, 0), of
		return s
	}
	gone := schedule("gone", "coder", 1)
	gone.DeletionTimestamp = &gone.CreationTimestamp
	all := []coderv1alpha1.CoderBackupSchedule{schedule("new", "coder", 3), schedule("b", "coder", 2), schedule("a", "coder", 2), schedule("other", "dev", 1), gone}
	if got := ScheduleOf("coder", all); got == nil || got.Name != "a" {
		t.Errorf("the schedule is %+v", got)
	}
	if got := ScheduleOf("nobody", all); got != nil {
		t.Errorf("the schedule is %+v", got)
	}
}
