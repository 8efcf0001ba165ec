package redaction

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
)

// formsOf gives the forms in which a value may stand in a text, the value itself
// first. Forms that are too short to mean anything are left out.
func formsOf(value string) []string {
	forms := []string{
		value,
		url.QueryEscape(value), url.PathEscape(value),
		strings.ToLower(url.QueryEscape(value)),
		hex.EncodeToString([]byte(value)), strings.ToUpper(hex.EncodeToString([]byte(value))),
	}
	for _, quote := range []func(string) string{strconv.Quote, quoteJSON, quoteHTML} {
		once := unquoted(quote(value))
		forms = append(forms, once, unquoted(quote(once)))
	}
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		whole := encoding.EncodeToString([]byte(value))
		forms = append(forms, whole, url.QueryEscape(whole))
		for shift := range 3 {
			forms = append(forms, within(encoding, value, shift))
		}
	}
	out := forms[:0]
	for _, form := range forms {
		if len(form) >= leastKnown {
			out = append(out, form)
		}
	}
	return out
}

// within gives the part of a longer text's base64 that the value alone decides,
// where so many bytes (modulo 3) stand before it.
func within(encoding *base64.Encoding, value string, shift int) string {
	encoded := encoding.EncodeToString([]byte(strings.Repeat("\x00", shift) + value))
	begin := (shift*8 + 5) / 6
	end := (shift + len(value)) * 8 / 6
	return encoded[begin:end]
}

// quoteHTML is the JSON of Go, which also escapes what means something in HTML.
func quoteHTML(text string) string {
	// Marshalling a text does not fail.
	quoted, _ := json.Marshal(text)
	return string(quoted)
}

// quoteJSON is the JSON of everybody else.
func quoteJSON(text string) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text)
	return strings.TrimSuffix(out.String(), "\n")
}

func unquoted(quoted string) string { return quoted[1 : len(quoted)-1] }

// decoded reads base64 of printable text.
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
