package podproblem

import (
	"cmp"
	"slices"
	"strings"
)

// PullCause describes why an image cannot be pulled, as far as the runtime reports it.
type PullCause string

// PullCauseUnknown means that the runtime reports no cause.
const PullCauseUnknown PullCause = ""

// pullCauses are ordered. The more certain signs come first. The messages differ between
// runtimes. IMAGE in a remedy is replaced by the place where the image is configured.
var pullCauses = []struct {
	cause         PullCause
	remedy        string
	signs, unless []string
}{
	{
		"it is not on the node, and the pull policy is Never", "load it onto the node, or change the pull policy beside IMAGE",
		[]string{"errimageneverpull", "never pull"}, nil,
	},
	{"the image name is not valid", "correct IMAGE", []string{"invalidimagename", "invalid reference format", "couldn't parse image"}, nil},
	{
		"the name of the registry does not resolve", "correct the registry in IMAGE, or the DNS of the node",
		[]string{"no such host", "server misbehaving", "name or service not known"}, nil,
	},
	{
		"the registry has no such image or tag", "correct the name or the tag in IMAGE", []string{"not found", "manifest unknown", "does not exist"},
		[]string{"access denied", "unauthorized", "authorization failed"},
	},
	{
		"the registry refuses access, or has no such image", "correct IMAGE, or give the pod pull secrets for the registry",
		[]string{"unauthorized", "authentication required", "denied", "forbidden", "no basic auth", "authorization failed"}, nil,
	},
	{"the certificate of the registry is not trusted", "have the node trust it, or correct IMAGE", []string{"x509", "certificate"}, nil},
	{
		"the rate limit of the registry is exceeded", "wait, log in to the registry with pull secrets, or use a mirror",
		[]string{"too many requests", "toomanyrequests", "rate limit"}, nil,
	},
	{
		"the registry does not respond", "check that the node can reach the registry, or correct it in IMAGE",
		[]string{"timeout", "timed out", "refused", "unreachable", "no route", "eof"}, nil,
	},
}

// PullCauseOf returns the cause that a message of a kubelet or a runtime reports.
func PullCauseOf(said string) PullCause {
	said = strings.ToLower(said)
	has := func(signs []string) bool {
		return slices.ContainsFunc(signs, func(sign string) bool { return strings.Contains(said, sign) })
	}
	for _, known := range pullCauses {
		if has(known.signs) && !has(known.unless) {
			return known.cause
		}
	}
	return PullCauseUnknown
}

// Remedy returns what to do. image is the place where the image is configured.
func (c PullCause) Remedy(image string) string {
	remedy := ""
	for _, known := range pullCauses {
		if known.cause == c {
			remedy = known.remedy
		}
	}
	return strings.ReplaceAll(cmp.Or(remedy, "check the Events of the pod, and correct IMAGE"), "IMAGE", image)
}

// PullCause returns why the image cannot be pulled.
func (p *Problem) PullCause() PullCause { return PullCauseOf(p.Reason + " " + p.Message) }
