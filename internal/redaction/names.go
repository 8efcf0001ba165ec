package redaction

import "regexp"

// keyword matches the words that end the names of fields, variables and flags with a secret
// value.
const keyword = `(?:pass(?:word|wd|phrase|code)?|pwd|psk|secret|token|credential|cookie|license|access[_-]?key[_-]id|` +
	`(?:api|access|account|client|private|secret|signing|encryption|daemon)[_-]?key)s?`

// keywordHints are in each keyword, in lower case.
var keywordHints = []string{"pass", "pwd", "psk", "secret", "token", "key", "credential", "cookie", "license"}

var (
	namesSecret = regexp.MustCompile(`(?i)(?:authorization|` + keyword + `)[_-]?[0-9]*$`)
	// variableNamesSecret is wider: people put more words into the names of variables.
	variableNamesSecret = regexp.MustCompile(`(?i)passw|passphrase|passcode|secret|token|credential|private|license|cookie|basic_?auth|oauth|` +
		`api[_-]?key|connection_url|keys?$|^auth(?:[^a-z]|$)|(?:^|[^a-z])(?:pass|pwd|psk|pat|dsn|key)(?:[^a-z]|$)`)
	// harmlessVariable is the end of names that only describe a secret, or its place.
	harmlessVariable = regexp.MustCompile(`(?i)_(?:FILE|PATH|NAME|ENABLED?|DISABLED?|TTL|LIFETIME|DURATION|FIELD|TOKEN_URL|TYPE)$`)
)

// NamesSecret reports whether the field with this name is likely to hold a secret: password,
// db_token, GITHUB_CLIENT_SECRET. A token_ttl or secretName is not.
func NamesSecret(name string) bool { return namesSecret.MatchString(name) }

// VariableNamesSecret reports the same for an environment variable or a parameter, whose name
// may hold the word anywhere: GIT_TOKEN_2_RO, private_host, pat.
func VariableNamesSecret(name string) bool {
	return variableNamesSecret.MatchString(name) && !harmlessVariable.MatchString(name)
}
