package redaction

import (
	"regexp"
	"slices"
	"strings"
)

// form is one way in which a secret occurs in a line.
type form struct {
	// hints are lower-case substrings. A line with this form contains at least one of them,
	// so most lines can skip the pattern, which is many times slower.
	hints []string
	// lead matches the text before the secret.
	lead *regexp.Regexp
	// length returns how many of the first bytes after the lead are secret, or 0. It
	// inspects a limited part of the text that it keeps, so that the total time stays
	// linear in the length of the line.
	length func(m match) int
	// token reports that the lead is the public prefix of a token. Text removes it too.
	token bool
}

// match is a lead with the text before the secret, and the rest of the line.
type match struct {
	lead, rest string
	// strict is set for Text.
	strict bool
}

// forms are applied in this order, the ones with the most context first.
var forms = []form{
	{hints: []string{"authorization"}, lead: authorizationLead, length: authorizationLength},
	{hints: []string{"bearer", "basic", "digest", "negotiate"}, lead: schemeLead, length: credentialsLength},
	{hints: []string{"cookie"}, lead: cookieLead, length: cookieLength},
	{hints: []string{"://"}, lead: userLead, length: passwordLength},
	{hints: []string{"invalid port"}, lead: portLead, length: portLength},
	{hints: keywordHints, lead: assignmentLead, length: assignedLength},
	{hints: keywordHints, lead: flagLead, length: flagLength},
	{hints: []string{"-u", "--user"}, lead: accountLead, length: accountLength},
	{hints: []string{"?", "&"}, lead: parameterLead, length: parameterLength},
	{hints: []string{"eyj"}, lead: jwtLead, length: jwtLength, token: true},
	{hints: vendorHints, lead: vendorLead, length: vendorLength, token: true},
}

// mostPasses limits how often a line is searched.
const mostPasses = 8

// withoutForms removes text that looks like a secret.
func withoutForms(text string, strict bool) string {
	text = withoutBlocks(withoutPrivateKeys(text))
	var out strings.Builder
	out.Grow(len(text))
	for line := range strings.Lines(text) {
		// A removal can complete another form, so repeat until nothing changes.
		for range mostPasses {
			before := line
			if line = lineWithoutForms(line, strict); line == before {
				break
			}
		}
		out.WriteString(line)
	}
	return out.String()
}

func lineWithoutForms(line string, strict bool) string {
	if strict {
		line = Users(line)
	}
	lower := strings.ToLower(line)
	for _, f := range forms {
		if slices.ContainsFunc(f.hints, func(hint string) bool { return strings.Contains(lower, hint) }) {
			line = f.redact(line, strict)
		}
	}
	return withoutCoderTokens(line, strict)
}

func (f form) redact(line string, strict bool) string {
	var out strings.Builder
	rest := line
	for at := f.lead.FindStringIndex(rest); at != nil; at = f.lead.FindStringIndex(rest) {
		start, end := at[0], at[1]
		if strings.HasPrefix(rest[end-1:], Placeholder) {
			// The bracket is the beginning of a Placeholder from an earlier form.
			end--
		}
		length := f.length(match{lead: rest[start:end], rest: rest[end:], strict: strict})
		kept := end
		if strict && f.token && length > 0 {
			kept = start
		}
		out.WriteString(rest[:kept])
		if length > 0 {
			out.WriteString(Placeholder)
		}
		rest = rest[end+length:]
	}
	out.WriteString(rest)
	return out.String()
}

// Prose returns the text without text that certainly is a secret. It keeps sentences about
// secrets, and the public prefixes of tokens.
func Prose(text string) string { return withoutForms(text, false) }

// HoldsSecret reports whether Prose would change the text.
func HoldsSecret(text string) bool { return Prose(text) != text }

// LooksSecret reports whether a value looks like a secret, by the strict rules of Text.
func LooksSecret(value string) bool {
	return strings.Contains(withoutForms(value, true), Placeholder) && !strings.Contains(value, Placeholder)
}

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
	id := len(before) - lastWord(before)
	if id != idLength || run(after, "") != secretLength || !strict && !looksRandom(after[:secretLength]) {
		return 0
	}
	return secretLength
}

// lastWord returns the index at which the letters and digits at the end of s begin.
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

// looksRandom distinguishes random letters, which are of mixed case, from names of objects,
// which are lower case.
func looksRandom(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r >= 'A' && r <= 'Z' }) &&
		strings.ContainsFunc(s, func(r rune) bool { return r >= 'a' && r <= 'z' })
}
