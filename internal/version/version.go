package version

import (
	"fmt"
	"runtime"
)

// The linker sets both with -X.
var (
	version = "v0.1.0-dev"
	commit  = ""
)

// Version is the released version, or that of the next release with -dev.
func Version() string { return version }

// UserAgent is how the process names itself to the servers that it calls.
func UserAgent() string { return "coder-k8s/" + version }

// String is version, commit and toolchain in one line.
func String() string {
	c := commit
	if c == "" {
		c = "unknown"
	}
	return fmt.Sprintf("%s (commit %s, %s, %s/%s)", version, c, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
