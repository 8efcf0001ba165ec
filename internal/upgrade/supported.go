package upgrade

import (
	_ "embed"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

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

// tested describes what was done with a minor version.
func (m supportedMinor) tested() string {
	switch {
	case m.Real != "":
		return fmt.Sprintf("%s ran with %s", m.Real, m.With)
	case m.Emulated != "":
		return fmt.Sprintf("%s was only emulated in tests", m.Emulated)
	}
	return "its source code was read, and it did not run in tests"
}
