package text

// redacted stands where a secret was.
const redacted = "(redacted)"

// Clean takes out terminal sequences and control characters other than line
// breaks and tabs, mends invalid UTF-8, and replaces what looks like a secret
// (tokens, passwords in addresses, private keys) by "(redacted)".
//
// The result can be longer than s, as the replacement can be longer than a
// secret.
func Clean(s string) string {
	return redact(redactPrivateKeys(readable(s)))
}
