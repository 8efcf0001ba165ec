package coderd

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/mail"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/coder/coder/v2/codersdk"

	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// pathName matches the names that Coder accepts for users, organizations, templates and workspaces.
// Coder's client inserts names into the path without escaping, so any other name could address
// another resource.
var pathName = regexp.MustCompile(`^[a-zA-Z0-9]+(?:-[a-zA-Z0-9]+)*$`)

// confirmNotFound repeats a read that reports a missing user. Coder also reports this if its
// database becomes unavailable during the lookup; the second request then fails with another error.
func confirmNotFound[T any](read func() (T, error)) (T, error) {
	out, err := read()
	if errors.Is(err, errUnknownUser) {
		return read()
	}
	return out, err
}

// checkNames returns a "not found" error for a name that is not valid in Coder.
func checkNames(op string, names []string) error {
	for _, name := range names {
		if !pathName.MatchString(name) {
			return notThere(op, name, "names in Coder are letters, digits and single dashes between them")
		}
	}
	return nil
}

func notThere(op, name, because string) *Error {
	return &Error{
		Op:         op,
		StatusCode: http.StatusNotFound,
		Message:    fmt.Sprintf("%q does not exist, because %s", name, because),
	}
}

// plainName matches names that need no escaping in a path. Coder accepts any name for a provisioner
// key or a workspace proxy, but other names could not be used in requests.
var plainName = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9_.-]*$`)

// plainNameRule describes plainName.
const plainNameRule = "letters, digits, underscores, dots and dashes, and must not begin with a dot or a dash"

func badName(op string, problem error) *Error {
	return &Error{
		Op:         op,
		StatusCode: http.StatusBadRequest,
		Message:    "the name cannot be used",
		Fields:     []FieldError{{Field: "name", Detail: problem.Error()}},
	}
}

// withoutSecret removes a secret that was sent in a request from the error, because a server may
// have repeated it.
func withoutSecret(err error, secret string) error {
	e, ok := errors.AsType[*Error](err)
	if secret == "" || !ok {
		return err
	}
	hide := func(s string) string { return withoutBeginning(strings.ReplaceAll(s, secret, "..."), secret) }
	hidden := *e
	hidden.Message, hidden.Detail, hidden.Fields = hide(e.Message), hide(e.Detail), nil
	for _, f := range e.Fields {
		hidden.Fields = append(hidden.Fields, FieldError{Field: f.Field, Detail: hide(f.Detail)})
	}
	return &hidden
}

// withoutBeginning removes the rest of a secret at which a text was truncated.
func withoutBeginning(s, secret string) string {
	kept, cut := strings.CutSuffix(s, redaction.Ellipsis)
	if !cut {
		return s
	}
	for n := min(len(secret), len(kept)); n > 0; n-- {
		if strings.HasSuffix(kept, secret[:n]) {
			return kept[:len(kept)-n] + redaction.Ellipsis
		}
	}
	return s
}

// The maximum lengths of the texts that this package returns. They are written to objects,
// conditions, events and logs. Coder's own texts are shorter.
const (
	// maxName limits names, statuses and other texts of one word or line.
	maxName = 256
	// maxText limits descriptions, URLs of icons and build errors.
	maxText = 4 << 10
	// maxTexts limits lists of such texts.
	maxTexts = 100
	// maxApps limits the apps of an agent.
	maxApps = 50
)

func boundName(s string) string { return redaction.Truncate(s, maxName) }

func boundNames(names ...*string) {
	for _, name := range names {
		*name = boundName(*name)
	}
}

func boundText(s string) string { return redaction.Truncate(s, maxText) }

// boundTags returns the first maxTexts tags, and truncates their names and values.
func boundTags(tags map[string]string) map[string]string {
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(tags))[:min(len(tags), maxTexts)] {
		out[boundName(name)] = boundName(tags[name])
	}
	return out
}

// The limits of Coder for texts, in characters. A dry run and a validation use them, because Coder reports some of them
// only as the tag of a validator, and others as an error of its database.
const (
	// MaxNewDescription is the limit of a new template's description (codersdk.CreateTemplateRequest, lt=128), and
	// MaxDescription that of an existing one (the column in coderd/database/dump.sql).
	MaxNewDescription = 127
	MaxDescription    = 128
	// MaxIcon is the limit of a template's icon (the column).
	MaxIcon = 256
	// MaxVersionMessage is the limit of a version's message (codersdk.CreateTemplateVersionRequest, lt=1048577).
	MaxVersionMessage = 1 << 20
	// MaxEmail is the limit of RFC 5321. Coder has none.
	MaxEmail = 254
)

const (
	nameRule        = `must have 1 to 32 letters, digits and single dashes between them, and not be "new" or "create"`
	versionNameRule = "must have up to 64 letters and digits, with single dots, dashes or underscores between them"
	displayNameRule = "must have at most 64 bytes in one line (a letter with an accent has 2 or more), and no leading or trailing whitespace"
	fullNameRule    = "must have at most 128 bytes (a letter with an accent has 2 or more), and no leading or trailing whitespace"
	emailRule       = "must be an email address such as ada@example.com, without a name, quotes or spaces, and with a domain that has a dot"
)

// rules are the sentences for the tags of Coder's validator.
var rules = map[string]string{
	"username": nameRule, "template_name": nameRule, "workspace_name": nameRule, "organization_name": nameRule,
	"template_version_name": versionNameRule, "template_display_name": displayNameRule, "user_real_name": fullNameRule,
	"email": emailRule, "required": "must be set",
}

// checkRule returns the sentence of a rule if Coder's own check, of codersdk, refuses a text.
func checkRule(check func(string) error, text, rule string) error {
	if check(text) != nil {
		return errors.New(rule)
	}
	return CheckText(text, len(text))
}

// CheckName returns why Coder does not accept the name of a new user, template or workspace, or nil.
func CheckName(name string) error { return checkRule(codersdk.NameValid, name, nameRule) }

// CheckVersionName returns why Coder does not accept the name of a template version, or nil.
func CheckVersionName(name string) error {
	return checkRule(codersdk.TemplateVersionNameValid, name, versionNameRule)
}

// CheckDisplayName returns why Coder does not accept the display name of a template, or nil.
func CheckDisplayName(name string) error {
	return checkRule(codersdk.DisplayNameValid, name, displayNameRule)
}

// CheckFullName returns why Coder does not accept the full name of a user, or nil.
func CheckFullName(name string) error {
	return checkRule(codersdk.UserRealNameValid, name, fullNameRule)
}

// The characters of an email address.
const (
	wideRunes  = `\x{00A0}-\x{D7FF}\x{F900}-\x{FDCF}\x{FDF0}-\x{FFEF}`
	emailName  = "[a-zA-Z0-9.!#$%&'*+/=?^_`{|}~" + wideRunes + "-]+"
	emailEnd   = `[a-zA-Z` + wideRunes + `]`
	emailBegin = `[a-zA-Z0-9` + wideRunes + `]`
	emailInner = `[a-zA-Z0-9.~` + wideRunes + `-]*`
)

// emailAddress matches what the tag email of github.com/go-playground/validator v10.30 accepts (regexes.go), without
// quoted names.
var emailAddress = regexp.MustCompile(`^` + emailName + `@` + emailBegin + `(?:` + emailInner + emailBegin + `)?\.` +
	emailEnd + `(?:` + emailInner + emailEnd + `)?\.?$`)

// CheckEmail returns why Coder does not accept the email address of a new user, or nil.
func CheckEmail(email string) error {
	// The validator checks both too.
	address, err := mail.ParseAddress(email)
	if err != nil || address.Address != email || !emailAddress.MatchString(email) {
		return errors.New(emailRule)
	}
	if len(email) > MaxEmail {
		return fmt.Errorf("must have at most %d bytes", MaxEmail)
	}
	return nil
}

// CheckText returns why Coder does not accept a text, or nil. Its validator and its database count characters, and the
// database stores no text with a NUL.
func CheckText(text string, most int) error {
	switch n := utf8.RuneCountInString(text); {
	case n > most:
		return fmt.Errorf("must have at most %d characters, and has %d", most, n)
	case strings.ContainsRune(text, 0):
		return errors.New("must not contain the character U+0000")
	}
	return nil
}

// failedRule matches what Coder's validator reports. It repeats the value, which may be secret.
var failedRule = regexp.MustCompile(`^Validation failed for tag "([a-z_]+)" with value: `)

// explain returns the detail of a field that Coder does not accept, with the rule in place of the validator's tag.
func explain(detail string) string {
	failed := failedRule.FindStringSubmatch(detail)
	switch {
	case failed == nil:
		return detail
	case rules[failed[1]] != "":
		return rules[failed[1]]
	}
	return fmt.Sprintf("Coder does not accept this value (rule %q of its validator)", failed[1])
}
