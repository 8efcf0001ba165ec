package version

import (
	"cmp"
	"fmt"
	"runtime"
)

// The linker sets these variables with -X.
var (
	version = "v0.1.0-dev"
	commit  = ""
	date    = ""
)

// Version returns the released version, or the next one with the suffix -dev.
func Version() string { return version }

// UserAgent returns the user agent in requests of the process.
func UserAgent() string { return "coder-k8s/" + version }

// Commit returns the commit that was built, or "unknown".
func Commit() string { return cmp.Or(commit, "unknown") }

// Date returns the date of that commit in RFC 3339 format, or "unknown".
func Date() string { return cmp.Or(date, "unknown") }

// Go returns the version of the Go toolchain.
func Go() string { return runtime.Version() }

// String returns the version, the commit with its date, and the toolchain in one line.
func String() string {
	return fmt.Sprintf("%s (commit %s of %s, %s, %s/%s)", version, Commit(), Date(), Go(), runtime.GOOS, runtime.GOARCH)
}
