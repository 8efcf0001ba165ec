package redaction

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/coder-k8s/coder-k8s/internal/truncate"
)

// Placeholder replaces each secret.
const Placeholder = "[redacted]"

const (
	// leastKnown is the length from which a known value is taken out wherever it
	// stands. Shorter ones are words of everyday text, and guessed in no time.
	leastKnown = 6
	// leastLine is the same for one line of a value that has many.
	leastLine = 16
	// mostKnown bounds the length of a value that is looked for as a whole. Of a
	// longer one the lines are.
	mostKnown = 16 << 10
)

// Redactor takes secrets out of text. Its zero value knows no values, and takes out
// what has the form of a secret. It is safe for concurrent use.
type Redactor struct {
	mu       sync.Mutex
	known    map[string]struct{}
	replacer *strings.Replacer
}

// Learn names a value that must stand nowhere. What it is made of is looked for
// too: its lines, the texts of a JSON document, the password of an address. Values
// of fewer than six characters are ignored.
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

// learnPassword learns the password of an address, also of one that cannot be parsed because
// the password is not escaped.
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

// learnDocument learns the texts of a JSON document, for example of the access to
// a registry of images.
func (r *Redactor) learnDocument(value string) {
	if value[0] != '{' && value[0] != '[' {
		return
	}
	var document any
	if json.Unmarshal([]byte(value), &document) != nil {
		return
	}
	for text := range texts(document) {
		r.learn(text)
		if decoded, ok := decoded(text); ok {
			r.learn(decoded)
			if _, password, ok := strings.Cut(decoded, ":"); ok {
				r.learn(password)
			}
		}
	}
}

// texts gives the texts of a document.
func texts(document any) func(yield func(string) bool) {
	return func(yield func(string) bool) { visit(document, yield) }
}

func visit(document any, yield func(string) bool) bool {
	switch d := document.(type) {
	case string:
		return yield(d)
	case []any:
		for _, item := range d {
			if !visit(item, yield) {
				return false
			}
		}
	case map[string]any:
		for _, item := range d {
			if !visit(item, yield) {
				return false
			}
		}
	}
	return true
}

// Text returns the text without secrets, for anyone to read.
func (r *Redactor) Text(text string) string { return withoutForms(r.Known(text), true) }

// Message returns the text without secrets, in which sentences about secrets stay, for
// conditions and events.
func (r *Redactor) Message(text string) string { return Prose(Users(r.Known(text))) }

// Quote returns the beginning of a foreign text as one line of at most limit bytes without
// secrets, to be quoted in a message.
func (r *Redactor) Quote(text string, limit int) string {
	return truncate.String(truncate.OneLine(r.Message(text)), limit)
}

// Known returns the text without the values that were learned. It is for what went
// through Text in parts before.
func (r *Redactor) Known(text string) string { return r.knownReplacer().Replace(text) }

// Document returns a copy of a JSON document without secrets in its texts.
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

func (r *Redactor) knownReplacer() *strings.Replacer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.replacer == nil {
		r.replacer = newReplacer(r.known)
	}
	return r.replacer
}

// newReplacer looks for every form of every value. Where one begins another, the
// longer one counts.
func newReplacer(known map[string]struct{}) *strings.Replacer {
	all := map[string]struct{}{}
	for value := range known {
		for _, form := range formsOf(value) {
			all[form] = struct{}{}
		}
	}
	sorted := make([]string, 0, len(all))
	for form := range all {
		sorted = append(sorted, form)
	}
	slices.SortFunc(sorted, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	pairs := make([]string, 0, 2*len(sorted))
	for _, form := range sorted {
		pairs = append(pairs, form, Placeholder)
	}
	return strings.NewReplacer(pairs...)
}

// isPublic says that a value is a certificate and nothing else, which everybody may
// know.
func isPublic(value string) bool {
	return strings.HasPrefix(value, "-----BEGIN CERTIFICATE-----") && !strings.Contains(value, "PRIVATE KEY")
}
