// Package dbus has the names that Tailscale's net/dns needs to compile. See ../README.md. There is no connection to a
// bus: SystemBus returns an error, so nothing else is called.
package dbus

import (
	"context"
	"errors"
)

var errOmitted = errors.New("this program was built without D-Bus")

// SystemBus returns an error.
func SystemBus() (*Conn, error) { return nil, errOmitted }

// Conn is a connection to a bus. There is none.
type Conn struct{}

// Object returns nil.
func (*Conn) Object(string, ObjectPath) BusObject { return nil }

// Signal does nothing.
func (*Conn) Signal(chan<- *Signal) {}

// AddMatchSignal returns an error.
func (*Conn) AddMatchSignal(...MatchOption) error { return errOmitted }

// Close does nothing.
func (*Conn) Close() error { return nil }

// BusObject is an object on a bus.
type BusObject interface {
	CallWithContext(ctx context.Context, method string, flags Flags, args ...any) *Call
	GetProperty(name string) (Variant, error)
}

// Flags are the options of a call.
type Flags byte

// Call is a call and its result.
type Call struct{ Err error }

// Store returns an error.
func (*Call) Store(...any) error { return errOmitted }

// ObjectPath is the path of an object.
type ObjectPath string

// Signal is a message of a bus.
type Signal struct {
	Path ObjectPath
	Name string
	Body []any
}

// Variant is a value with its type.
type Variant struct{ value any }

// MakeVariant returns v as a Variant.
func MakeVariant(v any) Variant { return Variant{v} }

// Value returns the value.
func (v Variant) Value() any { return v.value }

// String returns "".
func (v Variant) String() string { return "" }

// Error is an error that a bus returns.
type Error struct{ Name string }

// Error returns the name of the error.
func (e Error) Error() string { return e.Name }

// ErrMsgUnknownMethod means that an object has no such method.
var ErrMsgUnknownMethod = Error{Name: "org.freedesktop.DBus.Error.UnknownMethod"}

// MatchOption selects signals.
type MatchOption struct{}

// WithMatchObjectPath selects nothing.
func WithMatchObjectPath(ObjectPath) MatchOption { return MatchOption{} }

// WithMatchInterface selects nothing.
func WithMatchInterface(string) MatchOption { return MatchOption{} }

// WithMatchMember selects nothing.
func WithMatchMember(string) MatchOption { return MatchOption{} }

// WithMatchArg selects nothing.
func WithMatchArg(int, string) MatchOption { return MatchOption{} }
