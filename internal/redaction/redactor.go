package redaction

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Placeholder replaces each secret.
const Placeholder = "[redacted]"

const (
	// leastKnown is the minimum length of a learned value that is removed. Shorter values
	// are common words, and are easy to guess anyway.
	leastKnown = 6
	// leastLine is the minimum length of a line of a learned value with several lines.
	leastLine = 16
	// mostKnown is the maximum length of a learned value that is searched as a whole. Of
	// longer values, only the lines are searched.
	mostKnown = 16 << 10
)

// Redactor removes secrets from text. Its zero value has learned no values, and removes
// only text that looks like a secret. It is safe for concurrent use.
type Redactor struct {
	mu       sync.Mutex
	known    map[string]struct{}
	replacer *strings.Replacer
}

// Learn adds a value to remove. It also adds the parts of the value: its lines, the strings
// of a JSON document, the password of a URL. Values of fewer than six characters are
// ignored.
func (r *Redactor) Learn(value string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = map[string]struct{}{}
	}
	r.learn(value)
}

func (r *Redactor) learn(value string) {
	value = strings.TrimSpace(value)
	if len(value) < leastKnown || isPublic(value) {
		return
	}
	if len(value) <= mostKnown {
		if _, ok := r.known[value]; ok {
			return
		}
		r.known[value] = struct{}{}
		r.replacer = nil
	}
	if strings.Contains(value, "\n") {
		for line := range strings.SplitSeq(value, "\n") {
			if line = strings.TrimSpace(line); len(line) >= leastLine && len(line) <= mostKnown && !strings.HasPrefix(line, "-----") {
				r.known[line] = struct{}{}
			}
		}
	}
	r.learnPassword(value)
	r.learnDocument(value)
}

// learnPassword learns the password of a URL, even if the URL cannot be parsed because the
// password is not escaped.
func (r *Redactor) learnPassword(value string) {
	_, rest, isAddress := strings.Cut(value, "://")
	if !isAddress || strings.Contains(value, "\n") {
		return
	}
	_, password, _ := strings.Cut(rest[:max(strings.LastIndexByte(rest, '@'), 0)], ":")
	passwords := []string{password}
	if plain, err := url.PathUnescape(password); err == nil {
		passwords = append(passwords, plain)
	}
	if address, err := url.Parse(value); err == nil {
		plain, _ := address.User.Password()
		passwords = append(passwords, plain, url.PathEscape(plain))
	}
	for _, password := range passwords {
		if len(password) >= leastKnown {
			r.known[password] = struct{}{}
		}
	}
}

// learnDocument learns the strings of a JSON document, for example of registry credentials.
func (r *Redactor) learnDocument(value string) {
	if value[0] != '{' && value[0] != '[' {
		return
	}
	var document any
	if json.Unmarshal([]byte(value), &document) != nil {
		return
	}
	eachText(document, func(text string) {
		r.learn(text)
		if decoded, ok := decoded(text); ok {
			r.learn(decoded)
			if _, password, ok := strings.Cut(decoded, ":"); ok {
				r.learn(password)
			}
		}
	})
}

// eachText calls do for the strings of a document.
func eachText(document any, do func(string)) {
	switch d := document.(type) {
	case string:
		do(d)
	case []any:
		for _, item := range d {
			eachText(item, do)
		}
	case map[string]any:
		for _, item := range d {
			eachText(item, do)
		}
	}
}

// Text returns the text without secrets, for public output.
func (r *Redactor) Text(text string) string { return withoutSecrets(r.Known(text), true) }

// Message returns the text without secrets, for conditions and events. It keeps sentences
// about secrets.
func (r *Redactor) Message(text string) string { return Prose(Users(r.Known(text))) }

// Quote returns the beginning of an external text without secrets, as one line of at most
// limit bytes, to quote it in a message.
func (r *Redactor) Quote(text string, limit int) string {
	return Truncate(OneLine(r.Message(text)), limit)
}

// Known returns the text without the learned values. It is for text whose parts were
// processed by Text before.
func (r *Redactor) Known(text string) string { return r.knownReplacer().Replace(text) }

// Document returns a copy of a JSON document without secrets in its strings.
func (r *Redactor) Document(document any) any {
	switch d := document.(type) {
	case string:
		return r.Text(d)
	case []any:
		out := make([]any, len(d))
		for i, item := range d {
			out[i] = r.Document(item)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(d))
		for key, item := range d {
			out[r.Known(key)] = r.Document(item)
		}
		return out
	}
	return document
}

// knownReplacer returns a replacer for all encodings of all values. If one is a prefix of
// another, the longer one is replaced.
func (r *Redactor) knownReplacer() *strings.Replacer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.replacer != nil {
		return r.replacer
	}
	all := map[string]struct{}{}
	for value := range r.known {
		for _, encoding := range encodingsOf(value) {
			all[encoding] = struct{}{}
		}
	}
	sorted := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	pairs := make([]string, 0, 2*len(sorted))
	for _, encoding := range sorted {
		pairs = append(pairs, encoding, Placeholder)
	}
	r.replacer = strings.NewReplacer(pairs...)
	return r.replacer
}

// isPublic reports whether a value contains only certificates, which are public.
func isPublic(value string) bool {
	return strings.HasPrefix(value, "-----BEGIN CERTIFICATE-----") && !strings.Contains(value, "PRIVATE KEY")
}

// Ellipsis is the end of a text that was shortened.
const Ellipsis = "…"

// Truncate returns s as valid UTF-8 of at most limit bytes. A longer text is cut between two
// characters and ends with Ellipsis if there is room for it. The result shares no memory with a
// longer text.
func Truncate(s string, limit int) string {
	if len(s) <= limit && utf8.ValidString(s) {
		return s
	}
	if len(s) <= limit {
		// A replacement character may be longer than the byte that it replaces, so invalid bytes
		// are removed.
		return strings.ToValidUTF8(s, "")
	}
	end := ""
	if limit >= len(Ellipsis) {
		end = Ellipsis
	}
	kept := strings.ToValidUTF8(s[:max(0, limit-len(end))], "")
	return strings.Clone(kept) + end
}

// OneLine returns a text as one line: each sequence of white space and control characters becomes a
// single space.
func OneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
}

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
