package inside

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

const (
	// MaxFileBytes is the size of the largest file that can be written or edited. Larger
	// files have no version.
	MaxFileBytes = 1 << 20
	// maxListBytes limits the output of the list script.
	maxListBytes = 2 << 20
	// maxHeader is the maximum size of the header that a script prints before the content.
	maxHeader = 256
)

// Range is a part of a file. First counts from 1.
type Range struct {
	// Lines reports that First and Count are lines, and not bytes.
	Lines        bool
	First, Count int64
	// MaxBytes is an additional limit on the size of the part.
	MaxBytes int64
}

// Content is a part of a file.
type Content struct {
	Data []byte
	// Size is the size of the whole file.
	Size int64
	// Version is a checksum of the file's content. It is empty for a large file.
	Version string
}

// Read reads a part of a file.
func (w Workspace) Read(ctx context.Context, path string, r Range) (Content, error) {
	if path == "" {
		return Content{}, toolset.UsageError("path is required")
	}
	unit := "bytes"
	if r.Lines {
		unit = "lines"
	}
	out, err := w.fileScript(ctx, path, script{names: []string{"file", "read"}, args: []string{
		path, unit, strconv.FormatInt(r.First, 10), strconv.FormatInt(r.Count, 10), strconv.FormatInt(r.MaxBytes, 10), strconv.Itoa(MaxFileBytes),
	}}, r.MaxBytes+maxHeader)
	if err != nil {
		return Content{}, err
	}
	header, data, ok := bytes.Cut(out, []byte("\n"))
	size, version, _ := strings.Cut(string(header), " ")
	c := Content{Data: data, Version: version}
	if c.Size, err = strconv.ParseInt(strings.TrimSpace(size), 10, 64); err != nil || !ok {
		return Content{}, w.unexpected(header)
	}
	return c, nil
}

// unexpected returns the error for a script that printed unexpected output.
func (w Workspace) unexpected(said []byte) error {
	return toolset.Refuse(toolset.OutcomeError, fmt.Sprintf(
		"the shell of workspace %s printed unexpected output, for example because its start-up files print text: %q", w.Name, said[:min(len(said), maxHeader)]))
}

// Part is a part of a file for the answer, cut at lines or at characters.
type Part struct {
	Data   []byte
	Binary bool
	// More reports that the file continues, at NextLine or NextByte.
	More               bool
	NextLine, NextByte int64
	// CutLine is the number of a line whose rest is left out, because it alone exceeds the
	// limit.
	CutLine int64
}

// Part returns the content for the answer: at most lines lines and most bytes. r is the
// range of the content, which includes one line and one byte more, to detect that the file
// continues.
func (c Content) Part(r Range, lines, most int) Part {
	data := c.Data
	p := Part{More: len(data) > most}
	data = data[:min(len(data), most)]
	if !r.Lines {
		// A range of bytes may start or end within a character.
		p.Data = toolset.WholeCharacters(toolset.FromCharacter(data))
		p.Binary = isBinary(p.Data)
		if p.More {
			p.NextByte = r.First + int64(len(data)) - int64(len(data)-len(toolset.WholeCharacters(data)))
		}
		return p
	}
	if count, end := countLines(data, lines); count == lines && end < len(c.Data) {
		data, p.More = data[:end], true
	} else if last := bytes.LastIndexByte(data, '\n'); p.More && last >= 0 {
		data = data[:last+1]
	}
	if p.More {
		p.NextLine = r.First + int64(bytes.Count(data, []byte("\n")))
		if p.NextLine == r.First {
			// Continue with the next line.
			p.CutLine = r.First
			p.NextLine++
			data = toolset.WholeCharacters(data)
		}
	}
	p.Data, p.Binary = data, isBinary(data)
	return p
}

// countLines returns the number of complete lines in data, at most most, and the offset of
// their end.
func countLines(data []byte, most int) (count, end int) {
	for count < most {
		i := bytes.IndexByte(data[end:], '\n')
		if i < 0 {
			return count, end
		}
		count, end = count+1, end+i+1
	}
	return count, end
}

// Write replaces the content of a file, or creates the file. If version is not empty, the
// file must still have that version.
func (w Workspace) Write(ctx context.Context, path string, content []byte, version string) error {
	switch {
	case path == "":
		return toolset.UsageError("path is required")
	case strings.HasSuffix(path, "/"):
		return toolset.UsageError(fmt.Sprintf("%q is a directory; give the path of a file", path))
	case len(content) > MaxFileBytes:
		return toolset.UsageError(fmt.Sprintf("the content has %d bytes and may have %d; write it in parts, or make it with a command", len(content), MaxFileBytes))
	}
	_, err := w.fileScript(ctx, path, script{
		names: []string{"file", "write"},
		args:  []string{path, strconv.Itoa(len(content)), version, ".coder-k8s." + rand.Text()},
		stdin: bytes.NewReader(content),
	}, maxHeader)
	return err
}

// Edit is a replacement in a file.
type Edit struct {
	Old, New string
	// All replaces all occurrences. Otherwise there must be exactly one.
	All bool
	// Version is the required version of the file, if not empty.
	Version string
}

// Edited is the result of an edit.
type Edited struct {
	Content []byte
	// Version is the version of the file before the edit.
	Version string
	// Count is the number of replaced occurrences.
	Count int
}

// Apply reads a file and returns its content after the edit. It does not write the file.
func (w Workspace) Apply(ctx context.Context, path string, e Edit) (Edited, error) {
	switch e.Old {
	case "":
		return Edited{}, toolset.UsageError("oldText is required; write_workspace_file makes a new file")
	case e.New:
		return Edited{}, toolset.UsageError("oldText and newText are the same")
	}
	c, err := w.Read(ctx, path, Range{First: 1, Count: MaxFileBytes + 1, MaxBytes: MaxFileBytes + 1})
	switch {
	case err != nil:
		return Edited{}, err
	case c.Size > MaxFileBytes || int64(len(c.Data)) != c.Size:
		return Edited{}, toolset.UsageError(fmt.Sprintf("%q has %d bytes, or is being changed; at most %d can be edited: use a command, for example sed", path, c.Size, MaxFileBytes))
	case bytes.IndexByte(c.Data, 0) >= 0:
		return Edited{}, toolset.UsageError(fmt.Sprintf("%q is binary and cannot be edited", path))
	case e.Version != "" && e.Version != c.Version:
		return Edited{}, toolset.Refuse(toolset.OutcomeConflict, fmt.Sprintf("%q has changed since it had version %q, and nothing was written; read it again", path, e.Version))
	}
	count := bytes.Count(c.Data, []byte(e.Old))
	switch {
	case count == 0 && bytes.Contains(c.Data, []byte("\r\n")) && !strings.Contains(e.Old, "\r"):
		return Edited{}, toolset.UsageError(fmt.Sprintf("oldText is not in %q, whose lines end with CRLF: write \\r\\n, or replace parts of single lines", path))
	case count == 0:
		return Edited{}, toolset.UsageError(fmt.Sprintf("oldText is not in %q; it must match exactly, with white space: read the file again", path))
	case count > 1 && !e.All:
		return Edited{}, toolset.UsageError(fmt.Sprintf("oldText is in %q %d times; include more of the surrounding text, or set replaceAll", path, count))
	}
	edited := Edited{Content: bytes.ReplaceAll(c.Data, []byte(e.Old), []byte(e.New)), Version: c.Version, Count: count}
	if len(edited.Content) > MaxFileBytes {
		return Edited{}, toolset.UsageError(fmt.Sprintf("%q would have %d bytes, and may have %d", path, len(edited.Content), MaxFileBytes))
	}
	return edited, nil
}

// Entry is a file or a directory in a list.
type Entry struct {
	Path string
	// Mode is st_mode of stat.
	Mode uint32
	Size int64
	// Modified is the modification time in seconds since 1970.
	Modified int64
}

// Type returns "file", "directory", "symlink" or "other".
func (e Entry) Type() string {
	switch e.Mode & syscall.S_IFMT {
	case syscall.S_IFREG:
		return "file"
	case syscall.S_IFDIR:
		return "directory"
	case syscall.S_IFLNK:
		return "symlink"
	}
	return "other"
}

// List lists a directory and its subdirectories, down to depth levels. more reports whether
// there are more entries than it returns.
func (w Workspace) List(ctx context.Context, path string, depth int) (entries []Entry, more bool, err error) {
	out, err := w.fileScript(ctx, path, script{
		names: []string{"file", "list"}, args: []string{path, strconv.Itoa(depth), strconv.Itoa(maxListBytes)},
	}, maxListBytes)
	if err != nil {
		return nil, false, err
	}
	for line := range strings.Lines(string(out)) {
		entry, err := parseEntry(line)
		switch {
		case err == nil:
			entries = append(entries, entry)
		case len(entries) > 0 && strings.HasSuffix(line, "\n"):
			// The name contains a line break.
			entries[len(entries)-1].Path += "\n" + strings.TrimSuffix(line, "\n")
		}
	}
	return entries, len(out) == maxListBytes, nil
}

func parseEntry(line string) (Entry, error) {
	fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
	if len(fields) != 4 || !strings.HasSuffix(line, "\n") {
		return Entry{}, fmt.Errorf("%q is not an entry", line)
	}
	mode, modeErr := strconv.ParseUint(fields[0], 16, 32)
	size, sizeErr := strconv.ParseInt(fields[1], 10, 64)
	modified, timeErr := strconv.ParseInt(fields[2], 10, 64)
	return Entry{Path: strings.TrimPrefix(fields[3], "./"), Mode: uint32(mode), Size: size, Modified: modified}, errors.Join(modeErr, sizeErr, timeErr)
}
