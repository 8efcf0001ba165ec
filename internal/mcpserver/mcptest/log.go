package mcptest

import (
	"fmt"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// LogBuffer collects log lines. Its zero value is empty.
type LogBuffer struct {
	mu    sync.Mutex
	lines strings.Builder
}

// Logger returns a logger that writes to the buffer, at all verbosity levels.
func (b *LogBuffer) Logger() logr.Logger {
	const everything = 10
	return funcr.New(func(prefix, args string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		fmt.Fprintln(&b.lines, prefix, args)
	}, funcr.Options{Verbosity: everything})
}

// String returns all that was logged.
func (b *LogBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lines.String()
}
