package redaction

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// form is what a kind of secret looks like, and what is left of it.
type form struct {
	// hints are texts in lower case of which a line has one, so that most lines need
	// no closer look. Matching them is many times faster than matching the pattern.
	hints   []string
	pattern *regexp.Regexp
	left    string
}

// word are the words behind which a secret stands.
const word = `(?:pass(?:word|wd|phrase|code)?|pwd|secret|token|api[_-]?key|access[_-]?key(?:[_-]id)?|private[_-]?key|` +
	`secret[_-]?key|signing[_-]?key|encryption[_-]?keys?|credentials?|client[_-]?secret|authorization|proxy-authorization|cookie|license)`

// assigned begins what gives a value to a word. What follows it closes the group.
const assigned = `(?i)(` + word + `s?(?:\\*["'])?[ \t]*(?:=>|:=|[:=])[ \t]*`

// hintsOfWord are in every word.
func hintsOfWord() []string {
	return []string{"pass", "pwd", "secret", "token", "key", "credential", "authorization", "cookie", "license"}
}

// block is everything in PEM but certificates, with line ends that may be quoted, also
// several times. One that is cut off goes on to the last line that can belong to it.
const block = keyBegins + `[A-Za-z0-9+/=:,\-\s\\]*?(?:-----END [A-Z0-9 ]+-----|$)`

// forms are looked for in this order, line by line.
func forms() []form {
	return []form{
		// JWT, with or without a signature.
		{[]string{"eyj"}, regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?`), Placeholder},
		// User and password of an address. A password may have an @ itself.
		{[]string{"://"}, regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s"'<>` + "`" + `]*@`), "${1}" + Placeholder + "@"},
		// Tokens that say what they are.
		{
			[]string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "akia", "asia", "aiza", "sk-", "k_live_", "k_test_", "npm_", "hvs."},
			regexp.MustCompile(`\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|xox[abprs]-[A-Za-z0-9-]{10,}|` +
				`(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}|sk-[A-Za-z0-9_-]{20,}|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|` +
				`npm_[A-Za-z0-9]{30,}|hvs\.[A-Za-z0-9_-]{20,})`), Placeholder,
		},
		{
			[]string{"bearer", "basic", "digest", "negotiate"},
			regexp.MustCompile(`(?i)\b(bearer|basic|digest|negotiate)[ \t]+[A-Za-z0-9+/_.=~-]{8,}`), "${1} " + Placeholder,
		},
		// name=value and name: value, within quotes that are quoted themselves, within
		// quotes, and without. What closes the quotes stays.
		{hintsOfWord(), regexp.MustCompile(assigned + `\\+")(?:[^"\\]|\\+[^"\\])*`), "${1}" + Placeholder},
		{hintsOfWord(), regexp.MustCompile(assigned + `")(?:[^"\\]|\\.)*`), "${1}" + Placeholder},
		{hintsOfWord(), regexp.MustCompile(assigned + `')[^']*`), "${1}" + Placeholder},
		{hintsOfWord(), regexp.MustCompile(assigned + `)[^\s"'\\][^\s"]*`), "${1}" + Placeholder},
		// A flag of its own word and its value behind it.
		{hintsOfWord(), regexp.MustCompile(`(?i)(--?[a-z0-9_-]*` + word + `[ \t]+)([^\s-][^\s]*)`), "${1}" + Placeholder},
		// The account of a client of HTTP, on its command line.
		{[]string{"-u", "--user"}, regexp.MustCompile(`((?:^|\s)(?:-u|--user)[ =]["']?[^\s:"']+:)[^\s"']+`), "${1}" + Placeholder},
		// Parameters of an address.
		{[]string{"?", "&"}, regexp.MustCompile(`(?i)([?&](?:sig|signature|code|state|key|auth|session|x-amz-[a-z-]+)=)[^\s&"'<>]+`), "${1}" + Placeholder},
	}
}

// compiled are the forms and the block, compiled once for the process: they never
// change.
var (
	compiled      = sync.OnceValue(forms)
	compiledBlock = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(block) })
)

// withoutForms takes out what has the form of a secret.
func withoutForms(text string) string {
	if strings.Contains(text, "-----BEGIN ") {
		text = compiledBlock().ReplaceAllString(text, Placeholder)
	}
	if strings.Contains(text, "-----BEGIN ") || strings.Contains(text, "-----END ") {
		text = withoutKeys(text)
	}
	text = withoutBlocks(text)
	var out strings.Builder
	out.Grow(len(text))
	for line := range strings.Lines(text) {
		out.WriteString(lineWithoutForms(line))
	}
	return out.String()
}

func lineWithoutForms(line string) string {
	line = withoutSessionTokens(line)
	lower := strings.ToLower(line)
	for _, f := range compiled() {
		if slices.ContainsFunc(f.hints, func(hint string) bool { return strings.Contains(lower, hint) }) {
			line = f.pattern.ReplaceAllString(line, f.left)
		}
	}
	return line
}

// The two parts of a session token of Coder, with a dash between them.
const (
	sessionID     = 10
	sessionSecret = 22
)

// withoutSessionTokens takes out what has the form of Coder's session tokens. A
// dash stands in every second line, so this does without a pattern.
func withoutSessionTokens(line string) string {
	for begin := 0; ; {
		dash := strings.IndexByte(line[begin:], '-')
		if dash < 0 {
			return line
		}
		dash += begin
		begin = dash + 1
		first, last := dash-sessionID, dash+sessionSecret
		if first < 0 || last >= len(line) || first > 0 && isWord(line[first-1]) || last+1 < len(line) && isWord(line[last+1]) {
			continue
		}
		if areWords(line[first:dash]) && areWords(line[dash+1:last+1]) {
			line = line[:first] + Placeholder + line[last+1:]
			begin = first + len(Placeholder)
		}
	}
}

func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func areWords(text string) bool {
	for i := range len(text) {
		if !isWord(text[i]) {
			return false
		}
	}
	return true
}

// namesSecret finds the names of things that hold secrets.
var namesSecret = regexp.MustCompile(`(?i)` + word + `s?[_-]?[0-9]*$`)

// NamesSecret says whether what has this name is likely to be secret: password,
// db_token, GITHUB_CLIENT_SECRET. A token_ttl or secretName is not.
func NamesSecret(name string) bool { return namesSecret.MatchString(name) }

// LooksSecret says whether a value has the form of a secret.
func LooksSecret(value string) bool {
	return strings.Contains(withoutForms(value), Placeholder) && !strings.Contains(value, Placeholder)
}
