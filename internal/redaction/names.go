package redaction

import "regexp"

// keyword matches the words at the end of the names of fields, variables and flags that
// contain a secret.
const keyword = `(?:pass(?:word|wd|phrase|code)?|pwd|psk|secret|token|credential|cookie|license|access[_-]?key[_-]id|` +
	`(?:api|access|account|client|private|secret|signing|encryption|daemon)[_-]?key)s?`

// keywordHints are lower-case substrings, of which each keyword contains one.
var keywordHints = []string{"pass", "pwd", "psk", "secret", "token", "key", "credential", "cookie", "license"}

var (
	namesSecret = regexp.MustCompile(`(?i)(?:authorization|` + keyword + `)[_-]?[0-9]*$`)
	// variableNamesSecret is broader, because names of variables contain more words.
	variableNamesSecret = regexp.MustCompile(`(?i)passw|passphrase|passcode|secret|token|credential|private|license|cookie|basic_?auth|oauth|` +
		`api[_-]?key|connection_url|keys?$|^auth(?:[^a-z]|$)|(?:^|[^a-z])(?:pass|pwd|psk|pat|dsn|key)(?:[^a-z]|$)`)
	// harmlessVariable matches the end of names that only describe a secret or its
	// location.
	harmlessVariable = regexp.MustCompile(`(?i)_(?:FILE|PATH|NAME|ENABLED?|DISABLED?|TTL|LIFETIME|DURATION|FIELD|TOKEN_URL|TYPE)$`)
)

// NamesSecret reports whether a field with this name probably contains a secret: password,
// db_token, GITHUB_CLIENT_SECRET. token_ttl and secretName do not.
func NamesSecret(name string) bool { return namesSecret.MatchString(name) }

// VariableNamesSecret reports the same for an environment variable or a parameter, whose
// name may contain the word anywhere: GIT_TOKEN_2_RO, private_host, pat.
func VariableNamesSecret(name string) bool {
	return variableNamesSecret.MatchString(name) && !harmlessVariable.MatchString(name)
}
