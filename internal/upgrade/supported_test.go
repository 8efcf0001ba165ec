package upgrade

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

func TestSupported(t *testing.T) {
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	for running, want := range map[string]struct {
		status       metav1.ConditionStatus
		reason, says string
	}{
		"v2.29.0":                      {yes, coderv1alpha1.ReasonSupported, "one of the versions that coder-k8s supports (2.29 to 2.36)"},
		"v2.36.1+7bd778d":              {yes, coderv1alpha1.ReasonSupported, "v2.36.1 ran with all end-to-end tests"},
		"2.36.99":                      {yes, coderv1alpha1.ReasonSupported, "Coder 2.36.99"},
		"v2.34.8":                      {yes, coderv1alpha1.ReasonSupported, "v2.34.8 was only emulated in tests"},
		"v2.35.4":                      {yes, coderv1alpha1.ReasonSupported, "its source code was read"},
		"v2.36.1-fips":                 {yes, coderv1alpha1.ReasonSupported, ""},
		"v2.28.6":                      {no, coderv1alpha1.ReasonOlderVersion, "older than the versions that coder-k8s supports (2.29 to 2.36)"},
		"v1.44.7":                      {no, coderv1alpha1.ReasonOlderVersion, "nothing is blocked"},
		"v2.37.0":                      {no, coderv1alpha1.ReasonNewerVersion, "likely to work"},
		"v3.0.0":                       {no, coderv1alpha1.ReasonNewerVersion, "nothing is blocked"},
		"v2.36.1-rc.0":                 {unknown, coderv1alpha1.ReasonVersionUnknown, "not a release"},
		"v2.36.1-devel+7bd778d":        {unknown, coderv1alpha1.ReasonVersionUnknown, "not a release"},
		"v0.0.0-devel+7bd778d":         {unknown, coderv1alpha1.ReasonVersionUnknown, "not a release"},
		"v0.0.0":                       {unknown, coderv1alpha1.ReasonVersionUnknown, ""},
		"sha256:aa":                    {unknown, coderv1alpha1.ReasonVersionUnknown, ""},
		"latest":                       {unknown, coderv1alpha1.ReasonVersionUnknown, `"latest"`},
		"v2.36":                        {unknown, coderv1alpha1.ReasonVersionUnknown, ""},
		"2.36.1\n":                     {unknown, coderv1alpha1.ReasonVersionUnknown, `"2.36.1\n"`},
		"<html>":                       {unknown, coderv1alpha1.ReasonVersionUnknown, "nothing is blocked"},
		"v99999999999999999999999.1.1": {unknown, coderv1alpha1.ReasonVersionUnknown, ""},
		"":                             {unknown, coderv1alpha1.ReasonVersionUnknown, ""},
	} {
		status, reason, message := Supported(running)
		if status != want.status || reason != want.reason || !strings.Contains(message, want.says) {
			t.Errorf("%q: %s %s %q, want %s %s %q", running, status, reason, message, want.status, want.reason, want.says)
		}
	}
}

// A version between two others is never outside of the window: the messages name only its ends.
func TestTheWindowHasNoGap(t *testing.T) {
	var major, first int
	for i, v := range supported() {
		if i == 0 {
			if _, err := fmt.Sscanf(v.Version, "%d.%d", &major, &first); err != nil {
				t.Fatal(err)
			}
		}
		if want := fmt.Sprintf("%d.%d", major, first+i); v.Version != want {
			t.Errorf("version %d is %s, want %s", i, v.Version, want)
		}
	}
}
