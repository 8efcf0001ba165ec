// Package serpent has the names that codersdk needs to describe the options of `coder server`. See ../README.md. The
// operator neither sets nor reads these options: Set returns an error, and nothing is checked.
package serpent

import (
	"errors"
	"net/url"
	"regexp"
	"time"
)

var errOmitted = errors.New("this program was built without the options of coder server")

// Value is the value of an option.
type Value interface{ Set(text string) error }

// Option is an option of a program.
type Option struct {
	Name, Description, Flag, FlagShorthand, Env, YAML, Default string

	Required, Hidden bool
	Value            Value
	Annotations      Annotations
	Group            *Group
	UseInstead       []Option
}

// OptionSet is a list of options.
type OptionSet []Option

// Group is a group of options.
type Group struct {
	Parent                  *Group
	Name, YAML, Description string
}

// Annotations are notes on an option.
type Annotations map[string]string

// Mark returns the annotations as they are.
func (a Annotations) Mark(_, _ string) Annotations { return a }

// IsSet reports whether there is a note with this key.
func (a Annotations) IsSet(key string) bool {
	_, found := a[key]
	return found
}

// Validate returns the value and does not check it.
func Validate[T Value](value T, _ func(T) error) Value { return value }

// EnumOf returns the value and does not check it.
func EnumOf(value *string, _ ...string) Value { return (*String)(value) }

// The kinds of values.
type (
	Bool           bool
	Duration       time.Duration
	HostPort       struct{ Host, Port string }
	Int64          int64
	Regexp         regexp.Regexp
	String         string
	StringArray    []string
	Struct[T any]  struct{ Value T }
	URL            url.URL
	YAMLConfigPath string
)

func (*Bool) Set(string) error           { return errOmitted }
func (*Duration) Set(string) error       { return errOmitted }
func (*HostPort) Set(string) error       { return errOmitted }
func (*Int64) Set(string) error          { return errOmitted }
func (*Regexp) Set(string) error         { return errOmitted }
func (*String) Set(string) error         { return errOmitted }
func (*StringArray) Set(string) error    { return errOmitted }
func (*Struct[T]) Set(string) error      { return errOmitted }
func (*URL) Set(string) error            { return errOmitted }
func (*YAMLConfigPath) Set(string) error { return errOmitted }

func (b Bool) Value() bool                { return bool(b) }
func (d Duration) Value() time.Duration   { return time.Duration(d) }
func (i Int64) Value() int64              { return int64(i) }
func (s String) Value() string            { return string(s) }
func (s String) String() string           { return string(s) }
func (s StringArray) Value() []string     { return s }
func (s *StringArray) GetSlice() []string { return *s }
