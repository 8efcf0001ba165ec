package redaction

import (
	"regexp"
	"strings"
)

// vendorHints are lower-case substrings of the prefixes of vendors' tokens.
var vendorHints = []string{
	"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "akia", "asia", "aiza", "sk-", "k_live_", "k_test_", "npm_", "hvs.", "coder_",
}

var (
	jwtLead     = regexp.MustCompile(`\beyJ`)
	vendorLead  = regexp.MustCompile(`\b(?:gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|AKIA|ASIA|AIza|sk-|[sr]k_(?:live|test)_|npm_|hvs\.|coder_)`)
	amazonShape = regexp.MustCompile(`^[A-Z0-9]{16}`)
	// oauthShape matches the rest of the secret of an OAuth2 application in Coder.
	oauthShape = regexp.MustCompile(`^[A-Za-z0-9]{10}_[A-Za-z0-9]{40}`)
)

// jwtLength is the length function for JSON web tokens, such as those of service accounts.
func jwtLength(m match) int {
	header, payload, found := strings.Cut(first(m.rest, maxHeader), ".")
	if !found || len(header) < 5 || run(header, "-_") < len(header) || run(first(payload, 5), "-_") < 5 {
		return 0
	}
	return run(m.rest, "-_.")
}

// vendorLength is the length function for tokens with a vendor's prefix.
func vendorLength(m match) int {
	v := first(m.rest, maxToken)
	v = v[:run(v, "-_")]
	known := false
	switch m.lead {
	case "AKIA", "ASIA":
		known = amazonShape.MatchString(m.rest)
	case "coder_":
		known = oauthShape.MatchString(m.rest)
	case "sk-":
		known = len(v) >= 20 && (m.strict || looksRandom(v))
	default:
		known = len(v) >= 16 && (m.strict || looksRandom(v) || strings.ContainsAny(v, "0123456789")) ||
			m.strict && len(v) >= 10 && strings.HasPrefix(m.lead, "xox")
	}
	if !known {
		return 0
	}
	return run(m.rest, "-_")
}

const (
	idLength     = 10
	secretLength = 22
	uuidLength   = 36
	hexLength    = 64
)

// withoutCoderTokens removes the tokens of Coder: session tokens, which consist of an ID of
// 10 characters, a dash and a secret of 22 characters, and tokens of workspace proxies,
// which consist of a UUID, a colon and 64 hexadecimal digits. Prose keeps the ID, because
// Coder's logs identify a token by it. It uses no pattern, because too many lines contain a
// dash.
func withoutCoderTokens(line string, strict bool) string {
	var out strings.Builder
	done := 0
	for i := strings.IndexAny(line, "-:"); i >= 0; {
		start, length := i+1, 0
		if line[i] == '-' {
			length = sessionSecret(line, i, strict)
			if strict {
				start -= idLength + 1
			}
		} else {
			length = proxySecret(line, i)
		}
		next := i + 1
		if length > 0 && start >= done {
			out.WriteString(line[done:start])
			out.WriteString(Placeholder)
			done = i + 1 + length
			next = done
		}
		i = strings.IndexAny(line[next:], "-:")
		if i >= 0 {
			i += next
		}
	}
	if done == 0 {
		return line
	}
	return out.String() + line[done:]
}

func sessionSecret(line string, dash int, strict bool) int {
	before, after := line[max(0, dash-idLength-1):dash], line[dash+1:min(len(line), dash+1+secretLength+1)]
	id := 0
	for id < len(before) && run(before[len(before)-id-1:len(before)-id], "") > 0 {
		id++
	}
	if id != idLength || run(after, "") != secretLength || !strict && !looksRandom(after[:secretLength]) {
		return 0
	}
	return secretLength
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

// looksRandom distinguishes random letters, which are of mixed case, from names of objects,
// which are lower case.
func looksRandom(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r >= 'A' && r <= 'Z' }) &&
		strings.ContainsFunc(s, func(r rune) bool { return r >= 'a' && r <= 'z' })
}
