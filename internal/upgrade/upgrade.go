package upgrade

import (
	"cmp"
	_ "embed"
	"fmt"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// Facts are what the decision depends on.
type Facts struct {
	// Running is the version of the Coder that last used the database. If Coder does not tell its
	// version, it is the tag or digest of its image. It is empty if no Coder was ever ready.
	Running string
	// Image is the image of the current pods. It is empty if there are none.
	Image string
	// Answered is the image of the Coder that answered last. It is empty if none ever did.
	Answered string
	// Wanted is the image that the pods should get.
	Wanted string
	// Overlapping is the name of a control plane with the same database and a Coder from before 2.39. It is
	// empty if there is none.
	Overlapping string
	// Allowed is the value of the annotation coder.com/allow-version.
	Allowed string
}

// FactsOf returns the facts that a control plane contains.
func FactsOf(cp *coderv1alpha1.CoderControlPlane) Facts {
	f := Facts{
		Running: cp.Status.Version, Image: cp.Status.Image, Answered: cp.Status.Image, Wanted: cp.Spec.Image,
		Allowed: cp.Annotations[coderv1alpha1.AnnotationAllowVersion],
	}
	// The operator does not ask this Coder, so that status.version is not its version.
	if f.Image != "" && (f.Running == "" || cp.Spec.OperatorAccess.Disabled) {
		f.Running = Reference(f.Image)
	}
	return f
}

// Result is the result of a check.
type Result string

// The results of a check. A failed one refuses the image. Warning is for problems that do not.
const (
	Passed     Result = "Passed"
	Failed     Result = "Failed"
	Overridden Result = "Overridden"
	Warning    Result = "Warning"
)

// The names of the checks.
const (
	CheckVersionKnown  = "VersionKnown"
	CheckNotADowngrade = "NotADowngrade"
	CheckSupportedJump = "SupportedJump"
	CheckQuotas        = "QuotasNeedOutage"
	CheckPostgreSQL    = "PostgreSQLVersion"
	CheckDestination   = "BackupDestination"
)

// Check is one check of an image. Message is complete without the name.
type Check struct {
	Name    string `json:"name"`
	Result  Result `json:"result"`
	Message string `json:"message"`
}

// Decision is whether the pods may get the wanted image, and how.
type Decision struct {
	// Checks are empty if no check is needed: the image does not change, or nothing runs yet.
	Checks []Check
	// StopFirst reports that the old pods must stop before the new ones start, because the two
	// images may have different schemas.
	StopFirst bool
	// Phases reports that the image goes through the phases of status.upgrade. Otherwise, it is given to
	// the Deployment at once: a patch, the first image, and the return to the image that answered last.
	Phases bool
	// Reason and Message say why the image is refused, and what to do. They are empty if it is not.
	Reason, Message string
}

// Decide returns the decision for the facts.
func Decide(f Facts) Decision {
	if f.Image == "" || SameImage(f.Image, f.Wanted) {
		return Decision{}
	}
	from, to := parse(f.Running), versionOf(f.Wanted)
	current := cmp.Or(versionOf(f.Image), from)
	d := Decision{StopFirst: !sameSchema(current, to) || from != nil && !sameSchema(from, to)}
	if f.Running == "" {
		return d
	}
	d.Checks = []Check{
		knownVersion(f, from, to),
		checked(CheckNotADowngrade, older(to, from), fmt.Sprintf(
			"the image %q is older than Coder %s, which has migrated this database, and Coder cannot migrate a database back",
			f.Wanted, f.Running), "the image is not known to be of an older minor version"),
		// Minor versions may be skipped: Coder documents the upgrade from one long-term release to the next, 2.29 to 2.34,
		// and no jump that fails.
		checked(CheckSupportedJump, from != nil && to != nil && to.Major() > from.Major(), fmt.Sprintf(
			"the image %q has another major version than Coder %s, which runs, and Coder documents no such upgrade",
			f.Wanted, f.Running), "Coder migrates its database over several minor versions"),
	}
	if beforeQuotas(from) && to != nil && !beforeQuotas(to) {
		d.Checks = append(d.Checks, checked(CheckQuotas, f.Overlapping != "", fmt.Sprintf(
			"CoderControlPlane %q uses the same database with a Coder from before 2.39, which must not run at the same time as the image %q, because that counts quotas anew",
			f.Overlapping, f.Wanted), "all old pods stop before a new one starts, which Coder demands for 2.39 where quotas are used"))
	}
	overridden := Allows(f.Allowed, f.Wanted)
	for i := range d.Checks {
		check := &d.Checks[i]
		switch {
		case check.Result != Failed:
		case overridden:
			check.Result = Overridden
		case d.Reason == "":
			d.Reason, d.Message = refusal(f, check)
		}
	}
	d.Phases = d.Reason == "" && d.StopFirst && f.Answered != "" && !SameImage(f.Answered, f.Wanted)
	return d
}

// Allows reports whether the value of the annotation coder.com/allow-version names an image: by its version, its tag, its
// digest or completely.
func Allows(allowed, image string) bool {
	if allowed == "" {
		return false
	}
	tag, digest := split(image)
	if allowed == image || allowed == tag || allowed == digest {
		return true
	}
	named, v := parse(allowed), parse(tag)
	return named != nil && v != nil && named.EqualTo(v)
}

func knownVersion(f Facts, from, to *version.Version) Check {
	switch {
	case to == nil:
		return Check{CheckVersionKnown, Failed, fmt.Sprintf("the tag of the image %q is not a version of Coder, so it may be older than Coder %s, which runs",
			f.Wanted, f.Running)}
	case from == nil:
		return Check{CheckVersionKnown, Failed, fmt.Sprintf("the version of the Coder that runs (%s) is not known, so the image %q may be older",
			f.Running, f.Wanted)}
	}
	return Check{CheckVersionKnown, Passed, fmt.Sprintf("Coder %s runs, and the image is %s", f.Running, Reference(f.Wanted))}
}

func checked(name string, failed bool, problem, passed string) Check {
	if failed {
		return Check{name, Failed, problem}
	}
	return Check{name, Passed, passed}
}

// beforeQuotas reports whether a version is older than 2.39, which counts the quotas of workspaces anew. Coder forbids that an
// older coderd runs at the same time if quotas are used.
func beforeQuotas(v *version.Version) bool {
	return v != nil && (v.Major() < 2 || v.Major() == 2 && v.Minor() < 39)
}

// Sharing returns the control planes, of those in the same namespace, that use the same database.
func Sharing(cp *coderv1alpha1.CoderControlPlane, all []coderv1alpha1.CoderControlPlane) (others []coderv1alpha1.CoderControlPlane) {
	name, key, _ := cp.DatabaseSecret()
	for i := range all {
		otherName, otherKey, _ := all[i].DatabaseSecret()
		if all[i].UID != cp.UID && name != "" && name == otherName && key == otherKey {
			others = append(others, all[i])
		}
	}
	return others
}

// Overlapping returns the name of the first control plane that may run a Coder from before 2.39, or an empty string.
func Overlapping(others []coderv1alpha1.CoderControlPlane) string {
	for i := range others {
		v := parse(FactsOf(&others[i]).Running)
		if ptr.Deref(others[i].Spec.Replicas, 1) > 0 && (v == nil || beforeQuotas(v)) {
			return others[i].Name
		}
	}
	return ""
}

// oldestPostgreSQL is the oldest major version of PostgreSQL with which Coder starts.
const oldestPostgreSQL = 13

// PostgreSQL checks the major version of the server of the database, which is 0 if it is not known.
func PostgreSQL(f Facts, major int64) Check {
	switch {
	case major == 0:
		return Check{CheckPostgreSQL, Warning, fmt.Sprintf("the version of the server is not known; Coder needs PostgreSQL %d or newer", oldestPostgreSQL)}
	case major >= oldestPostgreSQL:
		return Check{CheckPostgreSQL, Passed, fmt.Sprintf("the server is PostgreSQL %d, and Coder needs %d or newer", major, oldestPostgreSQL)}
	}
	check := Check{CheckPostgreSQL, Failed, fmt.Sprintf("the server of the database is PostgreSQL %d, and Coder needs %d or newer; upgrade the server, or set spec.image back; the annotation %s: %q on the CoderControlPlane allows the image anyway",
		major, oldestPostgreSQL, coderv1alpha1.AnnotationAllowVersion, Reference(f.Wanted))}
	if Allows(f.Allowed, f.Wanted) {
		check.Result = Overridden
	}
	return check
}

func refusal(f Facts, check *Check) (reason, message string) {
	reason, remedy := coderv1alpha1.ReasonVersionUnknown, "name the version in the tag of spec.image"
	switch check.Name {
	case CheckNotADowngrade:
		reason, remedy = coderv1alpha1.ReasonDowngrade, "set spec.image to that version or a newer one, or restore a backup of the database"
	case CheckSupportedJump:
		reason, remedy = coderv1alpha1.ReasonUnsupportedUpgrade, "set spec.image to a version that Coder documents an upgrade to"
	case CheckQuotas:
		reason, remedy = coderv1alpha1.ReasonDatabaseShared, "set spec.replicas of the other one to 0, or give each its own database"
	}
	return reason, fmt.Sprintf("%s; the pods keep the image %q; %s; the annotation %s: %q on the CoderControlPlane allows the image anyway",
		check.Message, f.Image, remedy, coderv1alpha1.AnnotationAllowVersion, Reference(f.Wanted))
}

// ScheduleOf returns the schedule whose template the backup of an upgrade uses: the oldest one that
// names the control plane, or nil.
func ScheduleOf(controlPlane string, schedules []coderv1alpha1.CoderBackupSchedule) *coderv1alpha1.CoderBackupSchedule {
	var oldest *coderv1alpha1.CoderBackupSchedule
	for i := range schedules {
		schedule := &schedules[i]
		if schedule.Spec.ControlPlaneRef.Name != controlPlane || !schedule.DeletionTimestamp.IsZero() {
			continue
		}
		if oldest == nil || schedule.CreationTimestamp.Before(&oldest.CreationTimestamp) ||
			schedule.CreationTimestamp.Equal(&oldest.CreationTimestamp) && schedule.Name < oldest.Name {
			oldest = schedule
		}
	}
	return oldest
}

// longestBackupName is the maximum length of the name of an external backup, in bytes.
const longestBackupName = 512

// ExternalBackup returns the backup that the annotation coder.com/upgrade-backup names for an upgrade to an image. missing
// says what is missing if there is none. The backup of an earlier attempt does not count, because Coder has run since.
func ExternalBackup(cp *coderv1alpha1.CoderControlPlane, image string) (name, missing string) {
	value := cp.Annotations[coderv1alpha1.AnnotationUpgradeBackup]
	target, name, _ := strings.Cut(value, "/")
	last, used, _ := strings.Cut(cp.Status.LastExternalBackup, "/")
	reason := ""
	switch {
	case value == "":
	case !Allows(target, image), name == "", len(name) > longestBackupName:
		reason = "the annotation names no backup for this version; "
	case name == used && Allows(last, image):
		reason = fmt.Sprintf("the backup %q is that of an earlier attempt; ", name)
	default:
		return name, ""
	}
	return "", fmt.Sprintf("%smake a backup of the database, and name it with kubectl annotate -n %s codercontrolplane %s --overwrite %s=%s/NAME",
		reason, cp.Namespace, cp.Name, coderv1alpha1.AnnotationUpgradeBackup, Reference(image))
}

// RestoreExternal says how a failed upgrade is taken back if another tool, such as CloudNativePG, has made its backup.
func RestoreExternal(u *coderv1alpha1.UpgradeStatus) string {
	at := ""
	if u.StoppedAt != nil {
		at = fmt.Sprintf(", or the state of %s, when the old pods had stopped,", u.StoppedAt.UTC().Format(time.RFC3339))
	}
	how := "into another database with the tool that made it"
	if u.ExternalBackup == u.Backup {
		how = "of CloudNativePG into a new Cluster with spec.bootstrap.recovery of that Cluster"
	}
	return fmt.Sprintf("restore the backup %q%s %s, and then set, in one change, spec.database to that database and spec.image: %q",
		u.ExternalBackup, at, how, u.FromImage)
}

// LongestHold is the maximum time for which provisioners are stopped in one phase of an upgrade.
const LongestHold = time.Hour

// ProvisionersHeld returns how long the provisioners of a control plane stay stopped for its upgrade at most, or 0 if they
// run. cp may be nil.
func ProvisionersHeld(cp *coderv1alpha1.CoderControlPlane, now time.Time) time.Duration {
	if cp == nil || cp.Status.Upgrade == nil || !cp.DeletionTimestamp.IsZero() {
		return 0
	}
	switch u := cp.Status.Upgrade; u.Phase {
	case coderv1alpha1.UpgradeStoppingProvisioners, coderv1alpha1.UpgradeStopping, coderv1alpha1.UpgradeBackingUp,
		coderv1alpha1.UpgradeMigrating, coderv1alpha1.UpgradeVerifying:
		return max(0, u.PhaseStartedAt.Add(LongestHold).Sub(now))
	}
	return 0
}

// PolicyOf returns spec.upgrade with its defaults.
func PolicyOf(cp *coderv1alpha1.CoderControlPlane) coderv1alpha1.UpgradeSpec {
	policy := coderv1alpha1.UpgradeSpec{Backup: coderv1alpha1.UpgradeBackupIfScheduled, OnFailure: coderv1alpha1.UpgradeRevert}
	if spec := cp.Spec.Upgrade; spec != nil {
		policy.Backup, policy.OnFailure = cmp.Or(spec.Backup, policy.Backup), cmp.Or(spec.OnFailure, policy.OnFailure)
	}
	return policy
}

// split returns the tag and the digest of an image. Only one of them may be empty: without both, the tag is latest.
func split(image string) (tag, digest string) {
	image, digest, _ = strings.Cut(image, "@")
	if at := strings.LastIndex(image, ":"); at > strings.LastIndex(image, "/") {
		tag = image[at+1:]
	}
	if tag == "" && digest == "" {
		tag = "latest"
	}
	return tag, digest
}

// Reference returns what identifies an image best: a tag that is a version, its digest, or any tag.
func Reference(image string) string {
	tag, digest := split(image)
	if digest != "" && parse(tag) == nil {
		return digest
	}
	return tag
}

// SameImage reports whether two images have the same tag or digest. The registry and the repository
// do not count: they differ between a mirror and its source. One of the images may have a digest in
// addition, because admission webhooks add it.
func SameImage(a, b string) bool {
	tagA, digestA := split(a)
	tagB, digestB := split(b)
	if digestA != "" && digestB != "" {
		return digestA == digestB
	}
	return tagA != "" && tagA == tagB
}

// versionOf returns the version in the tag of an image, or nil if there is none.
func versionOf(image string) *version.Version {
	tag, _ := split(image)
	return parse(tag)
}

// parse returns a version of Coder, for example of v2.36.1 or v2.36.1+7bd778d, or nil if the text is
// none. Coder says v0.0.0 if it was built without its version. Its pre-releases are named rc and
// devel. Any other suffix, as in v2.36.1-fips, is that of an image that somebody built.
func parse(text string) *version.Version {
	core, suffix, _ := strings.Cut(text, "-")
	if !strings.HasPrefix(suffix, "rc") && !strings.HasPrefix(suffix, "devel") {
		text = core
	}
	v, err := version.ParseSemantic(text)
	if err != nil || v.Major() == 0 {
		return nil
	}
	return v
}

// sameSchema reports whether two versions are known and have the same database schema, as the
// patches of one minor version have. Each pre-release may have another schema.
func sameSchema(a, b *version.Version) bool {
	return a != nil && b != nil && a.Major() == b.Major() && a.Minor() == b.Minor() && a.PreRelease() == b.PreRelease()
}

// Older reports whether a version of Coder is known to have an older database schema than another
// one.
func Older(a, b string) bool { return older(parse(a), parse(b)) }

func older(a, b *version.Version) bool {
	return a != nil && b != nil && !sameSchema(a, b) && a.LessThan(b)
}

// Differ reports whether two versions of Coder are known and have different database schemas.
func Differ(a, b string) bool {
	return parse(a) != nil && parse(b) != nil && !sameSchema(parse(a), parse(b))
}

// ImageOf returns the image for a version or an image that a user names: the repository of the
// current image with the tag of the version, or the named image.
func ImageOf(named, current string) string {
	if strings.ContainsAny(named, "/@:") {
		return named
	}
	repository, _, _ := strings.Cut(current, "@")
	if at := strings.LastIndex(repository, ":"); at > strings.LastIndex(repository, "/") {
		repository = repository[:at]
	}
	if parse(named) != nil {
		named = "v" + strings.TrimPrefix(named, "v")
	}
	return repository + ":" + named
}

// supportedVersions names the versions. The tests of the docs compare all other places with it, and
// render docs/reference/support.md from it.
//
//go:embed supported.yaml
var supportedVersions []byte

// supportedMinor is one minor version of Coder that this release supports: the release that ran in
// tests, those tests, and the release that the test server emulates. The last three can be empty.
type supportedMinor struct{ Version, Real, With, Emulated string }

// supported returns the minor versions of Coder, the oldest first. There is no gap between them.
var supported = sync.OnceValue(func() []supportedMinor {
	var file struct {
		Coder struct{ Versions []supportedMinor }
	}
	if err := yaml.Unmarshal(supportedVersions, &file); err != nil || len(file.Coder.Versions) == 0 {
		panic(fmt.Sprintf("supported.yaml of this binary names no versions: %v", err))
	}
	return file.Coder.Versions
})

// Supported returns whether this release supports a version of Coder, as the status, the reason and
// the message of the condition VersionSupported. The version is what Coder reports, or what
// identifies its image.
func Supported(running string) (status metav1.ConditionStatus, reason, message string) {
	all := supported()
	oldest, newest := all[0].Version, all[len(all)-1].Version
	window := fmt.Sprintf("the versions that coder-k8s supports (%s to %s)", oldest, newest)
	v := parse(running)
	if v == nil || v.PreRelease() != "" {
		return metav1.ConditionUnknown, coderv1alpha1.ReasonVersionUnknown, fmt.Sprintf(
			"%q is not a release of Coder, so it is not known whether it is one of %s; nothing is blocked", running, window)
	}
	minor := fmt.Sprintf("%d.%d", v.Major(), v.Minor())
	for _, known := range all {
		if known.Version == minor {
			return metav1.ConditionTrue, coderv1alpha1.ReasonSupported, fmt.Sprintf("Coder %s is one of %s; %s", running, window, known.tested())
		}
	}
	if v.LessThan(version.MustParseGeneric(oldest)) {
		return metav1.ConditionFalse, coderv1alpha1.ReasonOlderVersion, fmt.Sprintf(
			"Coder %s is older than %s: what needs a request that this Coder does not know fails with an error; nothing is blocked; update Coder", running, window)
	}
	return metav1.ConditionFalse, coderv1alpha1.ReasonNewerVersion, fmt.Sprintf("Coder %s is newer than %s: it is likely to work, "+
		"because unknown fields and values are tolerated, but it was not tested; nothing is blocked; look for a newer version of coder-k8s", running, window)
}

func (m supportedMinor) tested() string {
	switch {
	case m.Real != "":
		return fmt.Sprintf("%s ran with %s", m.Real, m.With)
	case m.Emulated != "":
		return fmt.Sprintf("%s was only emulated in tests", m.Emulated)
	}
	return "its source code was read, and it did not run in tests"
}
