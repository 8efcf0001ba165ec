package identity

import "strings"

// recognizable is the length of a prefix of a token that must not appear in the log, in
// bytes.
const recognizable = 16

// withoutToken returns the text of an error for the log. If the error repeats the request,
// and thereby the token, its text is left out.
func withoutToken(err error, token string) string {
	text := err.Error()
	if strings.Contains(text, token[:min(len(token), recognizable)]) {
		return "(the text has the token in it)"
	}
	return text
}
