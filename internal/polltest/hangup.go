package polltest

import (
	"os"
	"os/signal"
	"syscall"
)

// KeepHangups makes SIGHUP end the programs that the test starts, even if nohup runs the test. They
// would inherit that the signal is ignored, and a shell can neither reset nor trap such a signal
// (POSIX, trap).
func KeepHangups() {
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
}
