package inside

import (
	"bytes"
	"fmt"
	"sync"
	"unicode/utf8"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// limited keeps the first most bytes that are written to it.
type limited struct {
	most int64

	mu   sync.Mutex
	kept []byte
}

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if room := l.most - int64(len(l.kept)); room > 0 {
		l.kept = append(l.kept, p[:min(int64(len(p)), room)]...)
	}
	return len(p), nil
}

func (l *limited) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.kept)
}

// Output is the output of a program on one stream, as far as it is kept.
type Output struct {
	// Start and End are the first and the newest bytes. End is empty if nothing is left
	// out.
	Start, End []byte
	// Size is the number of all bytes.
	Size int64
}

// Omitted returns the number of bytes that are left out between Start and End.
func (o Output) Omitted() int64 { return o.Size - int64(len(o.Start)) - int64(len(o.End)) }

// Text returns the cleaned output. If bytes are left out, a line says how many.
func (o Output) Text() string {
	if o.Omitted() == 0 {
		return toolset.CleanText(string(o.Start) + string(o.End))
	}
	start, end := toolset.WholeCharacters(o.Start), toolset.FromCharacter(o.End)
	omitted := o.Size - int64(len(start)) - int64(len(end))
	return fmt.Sprintf("%s\n[%d bytes are left out here]\n%s", toolset.CleanText(string(start)), omitted, toolset.CleanText(string(end)))
}

// IsBinary reports whether the output is not UTF-8 text.
func (o Output) IsBinary() bool {
	if o.Omitted() == 0 {
		return isBinary(append(bytes.Clone(o.Start), o.End...))
	}
	return isBinary(toolset.WholeCharacters(o.Start)) || isBinary(toolset.FromCharacter(o.End))
}

func isBinary(b []byte) bool { return bytes.IndexByte(b, 0) >= 0 || !utf8.Valid(b) }

// ends keeps the beginning and the end of a stream.
type ends struct {
	// most is the maximum number of bytes that are kept, half of them from the start.
	most int

	mu  sync.Mutex
	out Output
}

// Write implements io.Writer.
func (e *ends) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := len(p)
	e.out.Size += int64(n)
	half := e.most / 2
	if room := half - len(e.out.Start); room > 0 {
		taken := min(room, len(p))
		e.out.Start = append(e.out.Start, p[:taken]...)
		p = p[taken:]
	}
	e.out.End = append(e.out.End, p...)
	// Cut only when End has twice its size, so that the kept bytes are not copied at each
	// write.
	if len(e.out.End) > 2*half {
		e.out.End = append([]byte(nil), e.out.End[len(e.out.End)-half:]...)
	}
	return n, nil
}

func (e *ends) size() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.out.Size
}

func (e *ends) output() Output {
	e.mu.Lock()
	defer e.mu.Unlock()
	end := e.out.End
	if half := e.most / 2; len(end) > half {
		end = end[len(end)-half:]
	}
	return Output{Start: bytes.Clone(e.out.Start), End: bytes.Clone(end), Size: e.out.Size}
}
