// Package redaction owns what is taken for a secret, and takes it out of text.
//
// Two things are taken out: values that the caller has named, in each form in
// which they may stand in a text (plain, base64, percent-encoded, hexadecimal,
// quoted), and what has the form of a secret whoever named it (tokens, private
// keys, passwords in addresses and behind words such as "password").
//
// Invariants:
//   - What stands in place of a secret tells nothing of it, neither its length nor
//     its hash.
//   - Too much is taken out rather than too little.
package redaction
