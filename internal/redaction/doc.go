// Package redaction makes external text safe to show: without secrets, short, and on one line. It
// also finds the error of Terraform in the log of a build. It defines what is a secret: all patterns
// of secrets are in this package.
//
// It removes values that the caller has learned, in each encoding in which a text may
// contain them (plain, base64, percent-encoded, hexadecimal, quoted), and text that looks
// like a secret: tokens, private keys, and passwords in URLs and after words such as
// "password".
//
// patterns.go lists the patterns and applies them. Each other file has one family of patterns:
// assignments.go (password=x, --token x), headers.go, urls.go, tokens.go, and multiline.go for
// private keys and blocks of YAML. redactor.go learns values and their encodings.
//
// There are two levels. Text is for public output: in doubt it removes. Prose is for
// conditions and for answers to users who may read the object: it also checks the value, so
// that sentences about secrets stay readable ("invalid token: expired").
//
// Invariants:
//   - The replacement of a secret reveals neither its length nor its hash.
//   - Text removes everything that Prose removes, and is idempotent.
//   - The time is linear in the length of the text, for any text.
//   - Truncate returns valid UTF-8, because characters are never split, and never more than the
//     requested number of bytes.
//   - TerraformCause returns one short line without the source of the template, without the values
//     of expressions, and without text that looks like a secret.
package redaction
