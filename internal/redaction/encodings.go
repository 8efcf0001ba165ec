package redaction

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// encodingsOf returns the encodings in which a value may occur in a text, the value itself
// first. It omits encodings that are too short.
func encodingsOf(value string) []string {
	encodings := []string{
		value,
		url.QueryEscape(value), url.PathEscape(value),
		strings.ToLower(url.QueryEscape(value)),
		hex.EncodeToString([]byte(value)), strings.ToUpper(hex.EncodeToString([]byte(value))),
	}
	for _, quote := range []func(string) string{strconv.Quote, quoteJSON, quoteHTML} {
		once := unquoted(quote(value))
		encodings = append(encodings, once, unquoted(quote(once)))
	}
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		whole := encoding.EncodeToString([]byte(value))
		encodings = append(encodings, whole, url.QueryEscape(whole))
		for shift := range 3 {
			encodings = append(encodings, within(encoding, value, shift))
		}
	}
	return slices.DeleteFunc(encodings, func(encoded string) bool { return len(encoded) < leastKnown })
}

// within returns the part of a longer text's base64 that depends only on the value, if
// shift bytes (modulo 3) precede the value.
func within(encoding *base64.Encoding, value string, shift int) string {
	encoded := encoding.EncodeToString([]byte(strings.Repeat("\x00", shift) + value))
	begin := (shift*8 + 5) / 6
	end := (shift + len(value)) * 8 / 6
	return encoded[begin:end]
}

// quoteHTML quotes text as JSON in Go's default format, which also escapes HTML characters.
func quoteHTML(text string) string {
	// Marshalling a string cannot fail.
	quoted, _ := json.Marshal(text)
	return string(quoted)
}

// quoteJSON quotes text as JSON without escaping HTML characters.
func quoteJSON(text string) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text)
	return strings.TrimSuffix(out.String(), "\n")
}

func unquoted(quoted string) string { return quoted[1 : len(quoted)-1] }

// decoded decodes base64 of printable text. It returns false for anything else.
func decoded(text string) (string, bool) {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(data) < leastKnown {
		return "", false
	}
	for _, b := range data {
		if b < ' ' && b != '\n' && b != '\t' {
			return "", false
		}
	}
	return string(data), true
}
