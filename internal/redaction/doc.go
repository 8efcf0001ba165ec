// Package redaction defines what is a secret, and removes secrets from text. All patterns
// of secrets are in this package.
//
// It removes values that the caller has learned, in each encoding in which a text may
// contain them (plain, base64, percent-encoded, hexadecimal, quoted), and text that looks
// like a secret: tokens, private keys, and passwords in URLs and after words such as
// "password".
//
// There are two levels. Text is for public output: in doubt it removes. Prose is for
// conditions and for answers to users who may read the object: it also checks the value, so
// that sentences about secrets stay readable ("invalid token: expired").
//
// Invariants:
//   - The replacement of a secret reveals neither its length nor its hash.
//   - Text removes everything that Prose removes, and is idempotent.
//   - The time is linear in the length of the text, for any text.
package redaction
