package redaction

import (
	"regexp"
	"strings"
)

var (
	// userInfo matches up to the last @ of a word, because an unescaped password may
	// contain any character.
	userInfo = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s"'<>` + "`" + `]*@`)
	// userLead matches the user in a URL. The password may contain any character: if it
	// contains invalid ones, errors about the URL quote it.
	userLead = regexp.MustCompile(`://[^\s/?#"@:\[]*:`)
	// portLead matches Go's error about a URL in which a password was parsed as the port.
	portLead = regexp.MustCompile(`invalid port \\*":`)
	// accountLead matches the user in the command line of an HTTP client.
	accountLead = regexp.MustCompile(`(?:^|\s)(?:-u|--user)[ =]["']?[^\s:"']+:`)
	// parameterLead matches a query parameter that contains a secret.
	parameterLead = regexp.MustCompile(`(?i)[?&](?:sig|signature|code|state|key|auth|session|x-amz-[a-z-]+)=`)
)

// Users removes users and passwords from the URLs in a text.
func Users(text string) string {
	if !strings.Contains(text, "://") || !strings.Contains(text, "@") {
		return text
	}
	return userInfo.ReplaceAllString(text, "${1}"+Placeholder+"@")
}

// urlQuery matches the query of a URL, or of a path at the start of a text.
var urlQuery = regexp.MustCompile(`((?:://|^/)[^\s?"']*\?)[^\s"']+`)

// UsersAndQueries removes users, passwords and whole queries from the URLs in a text. Prose keeps
// the parameters of a query unless they look like secrets.
func UsersAndQueries(text string) string {
	return urlQuery.ReplaceAllString(Users(text), "${1}"+Placeholder)
}

// passwordLength is the length function for the password in a URL.
func passwordLength(m match) int {
	address := until(first(m.rest, maxPassword), blanks+`"`)
	if next := strings.Index(address, "://"); next >= 0 {
		address = address[:next]
	}
	authority := until(address, "/?#")
	at := strings.LastIndexByte(authority, '@')
	if at < 0 && !isNumber(authority) {
		at = strings.LastIndexByte(address, '@')
	}
	if at < 0 || saysNothing(address[:at]) {
		return 0
	}
	return at
}

// portLength is the length function for the part of a password in Go's error about a URL.
func portLength(m match) int { return len(until(m.rest, "\n\"\\")) }

// accountLength is the length function for "-u user:password". Two numbers are the IDs of a
// user and a group.
func accountLength(m match) int {
	v := until(m.rest, blanks+`"'`)
	if !m.strict && (saysNothing(first(v, maxWord)) || isNumber(first(v, maxWord))) {
		return 0
	}
	return len(v)
}

// parameterLength is the length function for "?sig=x".
func parameterLength(m match) int {
	const ends = blanks + `&"'<>`
	if !m.strict && !looksSecret(until(first(m.rest, maxWord), ends)) {
		return 0
	}
	return len(until(m.rest, ends))
}
