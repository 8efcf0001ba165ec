package podproblem

import (
	"slices"
	"strings"
)

// PullCause is the reason why an image cannot be pulled, as far as the runtime reports it.
type PullCause int

// The causes. The messages differ between runtimes.
const (
	PullCauseUnknown PullCause = iota
	NeverPulled
	InvalidName
	UnknownRegistry
	NoSuchImage
	AccessDenied
	UntrustedCertificate
	RateLimited
	NoAnswer
)

// pullCauses are ordered. The more certain signs come first.
var pullCauses = []struct {
	cause         PullCause
	text          string
	signs, unless []string
}{
	{NeverPulled, "it is not on the node, and the pull policy is Never", []string{"errimageneverpull", "never pull"}, nil},
	{InvalidName, "the image name is not valid", []string{"invalidimagename", "invalid reference format", "couldn't parse image"}, nil},
	{UnknownRegistry, "the name of the registry does not resolve", []string{"no such host", "server misbehaving", "name or service not known"}, nil},
	{
		NoSuchImage, "the registry has no such image or tag", []string{"not found", "manifest unknown", "does not exist"},
		[]string{"access denied", "unauthorized", "authorization failed"},
	},
	{
		AccessDenied, "the registry refuses access, or has no such image",
		[]string{"unauthorized", "authentication required", "denied", "forbidden", "no basic auth", "authorization failed"}, nil,
	},
	{UntrustedCertificate, "the certificate of the registry is not trusted", []string{"x509", "certificate"}, nil},
	{RateLimited, "the rate limit of the registry is exceeded", []string{"too many requests", "toomanyrequests", "rate limit"}, nil},
	{NoAnswer, "the registry does not respond", []string{"timeout", "timed out", "refused", "unreachable", "no route", "eof"}, nil},
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

// String describes the cause. It is empty if the cause is unknown.
func (c PullCause) String() string {
	for _, known := range pullCauses {
		if known.cause == c {
			return known.text
		}
	}
	return ""
}

// PullCause returns why the image cannot be pulled.
func (p *Problem) PullCause() PullCause { return PullCauseOf(p.Reason + " " + p.Message) }
