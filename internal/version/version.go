package version

import (
	"cmp"
	"fmt"
	"runtime"
)

// The linker sets these with -X.
var (
	version = "v0.1.0-dev"
	commit  = ""
	date    = ""
)

// Version is the released version, or that of the next release with -dev.
func Version() string { return version }

// UserAgent is how the process names itself to the servers that it calls.
func UserAgent() string { return "coder-k8s/" + version }

// Commit is the commit that was built, or unknown.
func Commit() string { return cmp.Or(commit, "unknown") }

// Date is when that commit was made, as RFC 3339, or unknown.
func Date() string { return cmp.Or(date, "unknown") }

// Go is the version of the toolchain.
func Go() string { return runtime.Version() }

// String is version, commit, its date and toolchain in one line.
func String() string {
	return fmt.Sprintf("%s (commit %s of %s, %s, %s/%s)", version, Commit(), Date(), Go(), runtime.GOOS, runtime.GOARCH)
}
