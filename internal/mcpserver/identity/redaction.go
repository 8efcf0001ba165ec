package identity

import "strings"

// recognizable is how many bytes of a token say enough about it.
const recognizable = 16

// withoutToken gives the text of an error for the log. An error may repeat what
// was asked, and so the token; its text is then left out.
func withoutToken(err error, token string) string {
	text := err.Error()
	if strings.Contains(text, token[:min(len(token), recognizable)]) {
		return "(the text has the token in it)"
	}
	return text
}
