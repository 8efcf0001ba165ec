package text

import (
	"regexp"
	"strings"
)

// vendorHints are how the tokens of vendors begin, in lower case.
var vendorHints = []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "akia", "asia", "aiza", "sk-", "coder_"}

var (
	jwtLead     = regexp.MustCompile(`\beyJ`)
	vendorLead  = regexp.MustCompile(`\b(?:gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|AKIA|ASIA|AIza|sk-|coder_)`)
	amazonShape = regexp.MustCompile(`^[A-Z0-9]{16}\b`)
	// oauthShape is the rest of the secret of an OAuth2 application in Coder.
	oauthShape = regexp.MustCompile(`^[A-Za-z0-9]{10}_[A-Za-z0-9]{40}\b`)
)

// jwtLength is for JSON web tokens, such as those of service accounts.
func jwtLength(_, rest string) int {
	header, payload, found := strings.Cut(first(rest, maxHeader), ".")
	if !found || len(header) < 5 || run(header, "-_") < len(header) || run(first(payload, 8), "-_") < 8 {
		return 0
	}
	return run(rest, "-_.")
}

// vendorLength is for tokens that say by their first letters whose they are.
func vendorLength(lead, rest string) int {
	length := run(first(rest, maxToken), "-_")
	known := false
	switch lead {
	case "AKIA", "ASIA":
		known = amazonShape.MatchString(rest)
	case "coder_":
		known = oauthShape.MatchString(rest)
	case "sk-":
		known = length >= 20 && looksRandom(rest[:length])
	default:
		known = length >= 16 && looksRandom(rest[:length])
	}
	if !known {
		return 0
	}
	return run(rest, "-_")
}

const (
	idLength     = 10
	secretLength = 22
	uuidLength   = 36
	hexLength    = 64
)

// redactCoderTokens replaces the tokens of Coder: those of users, whose form is
// an id of 10 characters, a dash and a secret of 22, and those of workspace
// proxies, a UUID, a colon and 64 hexadecimal digits. The id stays, as it is how
// Coder's own log names a token.
func redactCoderTokens(line string) string {
	var b strings.Builder
	done := 0
	for i := range len(line) {
		length := 0
		switch line[i] {
		case '-':
			length = sessionSecret(line, i)
		case ':':
			length = proxySecret(line, i)
		}
		if length > 0 && i >= done {
			b.WriteString(line[done : i+1])
			b.WriteString(redacted)
			done = i + 1 + length
		}
	}
	if done == 0 {
		return line
	}
	return b.String() + line[done:]
}

func sessionSecret(line string, dash int) int {
	before, after := line[max(0, dash-idLength-1):dash], line[dash+1:min(len(line), dash+1+secretLength+1)]
	id := len(before) - lastWord(before)
	if id != idLength || run(after, "") != secretLength || !looksRandom(after[:secretLength]) {
		return 0
	}
	return secretLength
}

// lastWord is where the letters and digits at the end of s begin.
func lastWord(s string) int {
	for i := len(s); i > 0; i-- {
		if run(s[i-1:i], "") == 0 {
			return i
		}
	}
	return 0
}

func proxySecret(line string, colon int) int {
	if colon < uuidLength || len(line)-colon-1 < hexLength {
		return 0
	}
	secret := line[colon+1 : colon+1+hexLength]
	if strings.Trim(secret, "0123456789abcdef") != "" || !uuid.MatchString(line[colon-uuidLength:colon]) {
		return 0
	}
	return hexLength
}

// looksRandom tells random letters from the names of objects, which are lower
// case.
func looksRandom(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r >= 'A' && r <= 'Z' }) &&
		strings.ContainsFunc(s, func(r rune) bool { return r >= 'a' && r <= 'z' })
}
