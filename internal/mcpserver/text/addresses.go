package text

import (
	"regexp"
	"strings"
)

var (
	// userLead is the user in an address. The password may be anything: where it
	// holds characters that an address may not have, the error of who reads the
	// address shows it, and that is when logs are read.
	userLead = regexp.MustCompile(`://[^\s/?#"@:\[]*:`)
	// portLead begins what Go says of an address whose password it takes for a port.
	portLead = regexp.MustCompile(`invalid port \\*":`)
)

// passwordLength is for the password in an address.
func passwordLength(_, rest string) int {
	address := first(rest, maxPassword)
	if end := strings.IndexAny(address, " \t\n\""); end >= 0 {
		address = address[:end]
	}
	if next := strings.Index(address, "://"); next >= 0 {
		address = address[:next]
	}
	authority := address
	if end := strings.IndexAny(address, "/?#"); end >= 0 {
		authority = address[:end]
	}
	at := strings.LastIndexByte(authority, '@')
	if at < 0 && !isPort(authority) {
		at = strings.LastIndexByte(address, '@')
	}
	if at < 0 || saysNothing(address[:at]) {
		return 0
	}
	return at
}

func isPort(s string) bool {
	return strings.Trim(s, "0123456789") == ""
}

// portLength is for the part of a password in Go's error about an address.
func portLength(_, rest string) int {
	if end := strings.IndexAny(rest, "\n\"\\"); end >= 0 {
		return end
	}
	return len(rest)
}
