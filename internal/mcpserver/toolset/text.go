package toolset

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// CleanText removes terminal sequences and control characters other than line breaks and tabs,
// replaces invalid UTF-8, and replaces text that looks like a secret (tokens, passwords in
// URLs, private keys) by redaction.Placeholder.
//
// The result can be longer than s, because the placeholder can be longer than a secret.
func CleanText(s string) string { return redaction.Prose(readable(s)) }

// CleanMessage is CleanText for messages of pods and Events, and for text in objects, where URLs
// also lose their users and queries.
func CleanMessage(s string) string { return redaction.Prose(redaction.UsersAndQueries(readable(s))) }

// CleanParameter returns CleanText of the value of a workspace's or a template's parameter. If
// the name is that of a secret, it returns redaction.Placeholder instead.
func CleanParameter(name, value string) string {
	if value != "" && redaction.VariableNamesSecret(name) {
		return redaction.Placeholder
	}
	return CleanText(value)
}

// terminalSequence matches, each also in its 8-bit form: a control sequence, such as one for
// colors; a control string, such as a window title, of which only the introducer is matched
// if there is no terminator, so that no text after it is lost; any other escape sequence.
var terminalSequence = regexp.MustCompile(`(?:\x1b\[|\x{9b})[0-?]*[ -/]*[@-~]?` +
	`|(?:\x1b[PX\]^_]|[\x{90}\x{98}\x{9d}-\x{9f}])(?:\P{Cc}*(?:\x07|\x{9c}|\x1b\\))?` +
	`|\x1b[ -/]*[0-~]?`)

var lineBreaks = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")

// readable returns s as valid UTF-8 without terminal sequences and invisible characters.
// All kinds of line breaks become line feeds.
func readable(s string) string {
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	if !strings.ContainsFunc(s, isUnreadable) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if isUnreadable(r) {
			return -1
		}
		return r
	}, lineBreaks.Replace(terminalSequence.ReplaceAllString(s, "")))
}

// isUnreadable reports whether r is invisible: a control character, or a format character
// that can hide text from users but not from a model, or change the order in which text is
// displayed.
func isUnreadable(r rune) bool {
	switch {
	case r == '\n', r == '\t':
		return false
	case r < utf8.RuneSelf:
		return r < ' ' || r == '\x7f'
	default:
		return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector)
	}
}

// WholeCharacters removes an incomplete UTF-8 character from the end.
func WholeCharacters(text []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if start := len(text) - i; utf8.RuneStart(text[start]) {
			if !utf8.FullRune(text[start:]) {
				return text[:start]
			}
			break
		}
	}
	return text
}

// FromCharacter removes the rest of a UTF-8 character from the start.
func FromCharacter(text []byte) []byte {
	start := 0
	for start < min(len(text), utf8.UTFMax-1) && !utf8.RuneStart(text[start]) {
		start++
	}
	return text[start:]
}

// chunk is the size of a read, in bytes.
const chunk = 32 << 10

// ReadTail reads r to its end and keeps the newest lines: at most maxLines lines and maxBytes
// bytes. cut reports whether something was left out. Nothing is kept if maxLines or
// maxBytes is not positive.
//
// It uses about 2*maxBytes of memory, however long r is. The error is that of r; the text
// before the error is returned too.
func ReadTail(r io.Reader, maxLines, maxBytes int) (kept string, cut bool, err error) {
	maxBytes = max(maxBytes, 0)
	// One byte more than the limit, to find out whether the kept text starts at the
	// beginning of a line.
	window, cut, err := newest(r, maxBytes+1)
	if len(window) > maxBytes {
		cut = true
		if lineEnd := bytes.IndexByte(window, '\n'); lineEnd >= 0 && lineEnd+1 < len(window) {
			window = window[lineEnd+1:]
		} else {
			// There is only one line. Keep its end, from the first complete character.
			window = FromCharacter(window[1:])
		}
	}
	kept = string(window)
	if maxLines <= 0 {
		return "", cut || kept != "", err
	}
	// A line break at the end does not start another line.
	start := len(strings.TrimSuffix(kept, "\n"))
	for range maxLines {
		if start = strings.LastIndexByte(kept[:start], '\n'); start < 0 {
			return kept, cut, err
		}
	}
	return kept[start+1:], true, err
}

// newest reads r to its end and returns its last bytes, at most limit of them. cut reports
// whether there were more.
func newest(r io.Reader, limit int) (window []byte, cut bool, err error) {
	most := max(2*limit, limit+chunk)
	for {
		if len(window)+chunk > most {
			cut = true
			window = window[:copy(window, window[len(window)-limit:])]
		}
		window = slices.Grow(window, chunk)
		n, err := r.Read(window[len(window) : len(window)+chunk])
		window = window[:len(window)+n]
		if err == nil {
			continue
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		if len(window) > limit {
			window, cut = window[len(window)-limit:], true
		}
		return window, cut, err
	}
}

var (
	// expression matches what Terraform evaluates, as opposed to a literal: an interpolation,
	// or a reference after an equals sign. A reference must contain a dot or an index. A match
	// ends before what can begin another one, so that a line is searched only once.
	expression = regexp.MustCompile(`\$\{[^}$]*\}|=\s*[A-Za-z_][\w-]*(?:\.[\w*-]+|\[[^\]=]*\])+`)
	// heredoc matches the first line of a text that ends with the line in the group.
	heredoc = regexp.MustCompile(`<<-?([A-Za-z_][\w-]*)\s*$`)
)

// CleanSource is CleanText for the source code of a file. On a line such as
// "password = var.password", CleanText would hide no secret and break the code. So a
// line is kept if all that looks like a secret in it is an expression.
func CleanSource(path, source string) string {
	var out, pending strings.Builder
	flush := func() {
		// Adjacent lines are redacted together, because a secret can span lines.
		out.WriteString(CleanText(pending.String()))
		pending.Reset()
	}
	textEnd := ""
	for line := range strings.Lines(source) {
		isCode := strings.HasSuffix(path, ".tf") && textEnd == ""
		if start := heredoc.FindStringSubmatch(line); isCode && start != nil {
			textEnd = start[1]
		} else if strings.TrimSpace(line) == textEnd {
			textEnd = ""
		}
		literal := withoutExpressions(line, isCode)
		if literal != line && CleanText(literal) == literal && CleanText(line) != line {
			// The line looks like a secret only because of an expression in it.
			flush()
			out.WriteString(line)
			continue
		}
		pending.WriteString(line)
	}
	flush()
	return out.String()
}

// withoutExpressions removes interpolations and, from code, references outside of quotes. It
// keeps those that contain a secret, for example "${PASSWORD:-hunter2}" or the dots of a token.
func withoutExpressions(line string, isCode bool) string {
	var out strings.Builder
	done, quotes := 0, 0
	for _, at := range expression.FindAllStringIndex(line, -1) {
		before, match := line[done:at[0]], line[at[0]:at[1]]
		quotes += strings.Count(before, `"`)
		out.WriteString(before)
		value := strings.TrimLeft(match, "= \t")
		isReference := len(value) < len(match)
		if isReference && (!isCode || quotes%2 > 0) || redaction.HoldsSecret(value) {
			out.WriteString(match)
		} else {
			out.WriteString(match[:len(match)-len(value)])
		}
		done = at[1]
	}
	return out.String() + line[done:]
}

// Subresource is a subresource that is read as a text, as an archive or as a JSON document.
type Subresource struct {
	group                             schema.GroupVersion
	resource, namespace, object, name string
	query                             url.Values
}

// Aggregated returns a subresource of a workspace or a template.
func Aggregated(resource, namespace, object, name string, query url.Values) Subresource {
	return Subresource{aggregationv1alpha1.GroupVersion, resource, namespace, object, name, query}
}

// PodLog returns the log of a pod.
func PodLog(namespace, pod string, options *corev1.PodLogOptions) Subresource {
	// The options consist of strings and numbers, so encoding them cannot fail.
	query, _ := scheme.ParameterCodec.EncodeParameters(options, corev1.SchemeGroupVersion)
	return Subresource{corev1.SchemeGroupVersion, "pods", namespace, pod, "log", query}
}

// Decode requests the subresource and decodes its JSON document into into.
func (s Subresource) Decode(ctx context.Context, kube *callers.Kube, into any) error {
	if err := RequireObject(s.namespace, s.object); err != nil {
		return err
	}
	if err := kube.ReadJSON(ctx, s.Path(), s.query, into); err != nil {
		return s.Failed(err)
	}
	return nil
}

// Tail requests the subresource and returns the newest lines of its text, cleaned. cut reports
// whether older ones were left out.
func (s Subresource) Tail(ctx context.Context, kube *callers.Kube, lines, bytes int) (kept string, cut bool, err error) {
	if err := RequireObject(s.namespace, s.object); err != nil {
		return "", false, err
	}
	body, err := kube.Raw(ctx, s.Path(), s.query)
	if err != nil {
		return "", false, s.Failed(err)
	}
	defer body.Close()
	raw, cut, err := ReadTail(body, lines, bytes)
	if err != nil {
		return "", false, s.Failed(err)
	}
	// Redaction can make a text longer.
	kept, cutAgain, err := ReadTail(strings.NewReader(CleanText(raw)), lines, bytes)
	return kept, cut || cutAgain, err
}

// Failed returns the error of a failed request for the subresource.
func (s Subresource) Failed(err error) error {
	resource := strings.TrimSuffix(s.resource+"/"+s.name+"."+s.group.Group, ".")
	return &CallError{Verb: "get", Resource: resource, Namespace: s.namespace, Name: s.object, Err: err}
}

// Path returns the path in the API.
func (s Subresource) Path() string {
	return callers.SubresourcePath(s.group, s.namespace, s.resource, s.object, s.name)
}
