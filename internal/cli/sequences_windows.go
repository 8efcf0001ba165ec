package cli

import (
	"os"

	"golang.org/x/sys/windows"
)

// interpretsSequences makes a console interpret escape sequences, which older consoles do only on
// request. It reports whether the console does.
func interpretsSequences(file *os.File) bool {
	console, mode := windows.Handle(file.Fd()), uint32(0)
	return windows.GetConsoleMode(console, &mode) == nil &&
		windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
