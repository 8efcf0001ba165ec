package redaction

import (
	"regexp"
	"strings"
)

var (
	// userInfo reaches to the last @ of a word, because a password that is not escaped may
	// hold any character.
	userInfo = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s"'<>` + "`" + `]*@`)
	// userLead is the user in an address. The password may be anything: if it has
	// characters that are not allowed there, an error about the address quotes it.
	userLead = regexp.MustCompile(`://[^\s/?#"@:\[]*:`)
	// portLead begins Go's error about an address whose password it takes for a port.
	portLead = regexp.MustCompile(`invalid port \\*":`)
	// accountLead is the user of an HTTP client, on its command line.
	accountLead = regexp.MustCompile(`(?:^|\s)(?:-u|--user)[ =]["']?[^\s:"']+:`)
	// parameterLead is a parameter of an address that holds a secret.
	parameterLead = regexp.MustCompile(`(?i)[?&](?:sig|signature|code|state|key|auth|session|x-amz-[a-z-]+)=`)
)

// Users removes users and passwords from the addresses in a text.
func Users(text string) string {
	if !strings.Contains(text, "://") || !strings.Contains(text, "@") {
		return text
	}
	return userInfo.ReplaceAllString(text, "${1}"+Placeholder+"@")
}

// passwordLength is for the password in an address.
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

// portLength is for the part of a password in Go's error about an address.
func portLength(m match) int { return len(until(m.rest, "\n\"\\")) }

// accountLength is for "-u user:password". Two numbers are the ids of a user and a group.
func accountLength(m match) int {
	v := until(m.rest, blanks+`"'`)
	if !m.strict && (saysNothing(first(v, maxWord)) || isNumber(first(v, maxWord))) {
		return 0
	}
	return len(v)
}

// parameterLength is for "?sig=x".
func parameterLength(m match) int {
	v := until(m.rest, blanks+`&"'<>`)
	if !m.strict && !looksSecret(first(v, maxWord)) {
		return 0
	}
	return len(v)
}
