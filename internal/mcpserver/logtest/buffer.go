package logtest

import (
	"fmt"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// Buffer collects log lines. Its zero value is empty.
type Buffer struct {
	mu    sync.Mutex
	lines strings.Builder
}

// Logger returns a logger that writes to the buffer, at all verbosity levels.
func (b *Buffer) Logger() logr.Logger {
	const everything = 10
	return funcr.New(func(prefix, args string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		fmt.Fprintln(&b.lines, prefix, args)
	}, funcr.Options{Verbosity: everything})
}

// String returns all that was logged.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lines.String()
}
