//go:build !windows

package cli

import "os"

// interpretsSequences reports whether a terminal interprets escape sequences.
func interpretsSequences(*os.File) bool { return true }
