// Package redaction owns what counts as a secret, and removes it from text. No other
// package has patterns of secrets.
//
// It removes values that the caller has named, in each form in which a text may hold them
// (plain, base64, percent-encoded, hexadecimal, quoted), and what has the form of a secret:
// tokens, private keys, passwords in addresses and behind words such as "password".
//
// There are two degrees. Text is for what strangers will read: in doubt it removes. Prose is
// for conditions and for answers to those who may read the object: it decides by the value
// too, so that sentences about secrets stay readable ("invalid token: expired").
//
// Invariants:
//   - What replaces a secret reveals neither its length nor its hash.
//   - Text removes all that Prose removes, and a second call changes nothing.
//   - The time grows with the length of the text and no faster, whatever the text is.
package redaction
