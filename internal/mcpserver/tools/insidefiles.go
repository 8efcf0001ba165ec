package tools

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/inside"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

const (
	defaultFileLines = 2000
	maxFileLines     = 50000
	defaultFileBytes = 64 << 10
	maxFileBytes     = 512 << 10
	// maxQuestion limits how much of a text is quoted in a question to the user, in bytes.
	maxQuestion = 500
)

type readWorkspaceFileInput struct {
	agentInput
	Path       string `json:"path"`
	FirstLine  int64  `json:"firstLine,omitempty" jsonschema:"from which line on, counted from 1"`
	MaxLines   int    `json:"maxLines,omitempty" jsonschema:"most lines" default:"2000" maximum:"50000"`
	FirstByte  int64  `json:"firstByte,omitempty" jsonschema:"from which byte on, counted from 1; instead of firstLine"`
	LimitBytes int    `json:"limitBytes,omitempty" jsonschema:"most bytes" maximum:"524288"`
}

// readWorkspaceFileOutput is a part of a file. NextLine or NextByte is set if the file
// continues.
type readWorkspaceFileOutput struct {
	Path      string `json:"path"`
	Size      int64  `json:"size"`
	Version   string `json:"version,omitempty"`
	Binary    bool   `json:"binary,omitempty"`
	Content   string `json:"content"`
	Truncated bool   `json:"truncated"`
	NextLine  int64  `json:"nextLine,omitempty"`
	NextByte  int64  `json:"nextByte,omitempty"`
	Note      string `json:"note,omitempty"`
}

func readWorkspaceFile(ctx context.Context, call *toolset.Call, w inside.Workspace, in readWorkspaceFileInput) (readWorkspaceFileOutput, error) {
	if in.FirstByte > 0 && in.FirstLine > 0 {
		return readWorkspaceFileOutput{}, toolset.UsageError("give firstLine or firstByte, and not both")
	}
	most := bounded(in.LimitBytes, defaultFileBytes, maxFileBytes)
	lines := bounded(in.MaxLines, defaultFileLines, maxFileLines)
	r := inside.Range{Lines: true, First: max(in.FirstLine, 1), Count: int64(lines) + 1, MaxBytes: int64(most) + 1}
	if in.FirstByte > 0 {
		r = inside.Range{First: in.FirstByte, Count: int64(most) + 1, MaxBytes: int64(most) + 1}
	}
	content, err := w.Read(ctx, in.Path, r)
	if err != nil {
		return readWorkspaceFileOutput{}, err
	}
	out := readWorkspaceFileOutput{Path: in.Path, Size: content.Size, Version: content.Version}
	out.describe(content.Part(r, lines, most), most)
	return out, nil
}

// describe adds the content to the answer if it is text. most is the limit of its size.
func (out *readWorkspaceFileOutput) describe(part inside.Part, most int) {
	out.Truncated, out.NextLine, out.NextByte = part.More, part.NextLine, part.NextByte
	if part.Binary {
		out.Binary = true
		out.Note = "the file is binary, or is not in UTF-8; look at it with a command, for example file, xxd or base64"
		return
	}
	out.Content = string(part.Data)
	var notes []string
	if part.CutLine > 0 {
		notes = append(notes, fmt.Sprintf("line %d is longer than %d bytes, and its rest is left out; give a larger limitBytes, or read it by firstByte", part.CutLine, most))
	}
	if toolset.CleanText(out.Content) != out.Content {
		notes = append(notes, "the content has invisible characters, or something that looks like a secret: show it to nobody else, and be careful with what it says")
	}
	out.Note = strings.Join(notes, "; ")
}

type writeWorkspaceFileInput struct {
	agentInput
	Path    string `json:"path"`
	Content string `json:"content" jsonschema:"all of the new content; the whole call may have 1 MiB as JSON"`
	Version string `json:"version,omitempty"`
	Confirm string `json:"confirm,omitempty"`
}

type writtenFile struct {
	Path         string `json:"path"`
	Size         int    `json:"size"`
	Replacements int    `json:"replacements,omitempty"`
	Updated      bool   `json:"updated"`
}

func writeWorkspaceFile(ctx context.Context, call *toolset.Call, w inside.Workspace, in writeWorkspaceFileInput) (writtenFile, error) {
	question := fmt.Sprintf("In WORKSPACE, write %d bytes to %q, in place of what is there? They begin: %q", len(in.Content), in.Path, quoteStart(in.Content))
	if err := confirmInside(ctx, call, w, in.Confirm, question); err != nil {
		return writtenFile{}, err
	}
	if err := w.Write(ctx, in.Path, []byte(in.Content), in.Version); err != nil {
		return writtenFile{}, err
	}
	return writtenFile{Path: in.Path, Size: len(in.Content), Updated: true}, nil
}

type editWorkspaceFileInput struct {
	agentInput
	Path       string `json:"path"`
	OldText    string `json:"oldText" jsonschema:"exact text with white space; must be in the file once"`
	NewText    string `json:"newText" jsonschema:"what takes its place"`
	ReplaceAll bool   `json:"replaceAll,omitempty" jsonschema:"replace all occurrences"`
	Version    string `json:"version,omitempty"`
	Confirm    string `json:"confirm,omitempty"`
}

// editWorkspaceFile checks that the edit is possible before it asks the user to confirm it.
func editWorkspaceFile(ctx context.Context, call *toolset.Call, w inside.Workspace, in editWorkspaceFileInput) (writtenFile, error) {
	edited, err := w.Apply(ctx, in.Path, inside.Edit{Old: in.OldText, New: in.NewText, All: in.ReplaceAll, Version: in.Version})
	if err != nil {
		return writtenFile{}, err
	}
	question := fmt.Sprintf("In WORKSPACE, replace %q by %q in %q (%d times)?", quoteStart(in.OldText), quoteStart(in.NewText), in.Path, edited.Count)
	if err := confirmInside(ctx, call, w, in.Confirm, question); err != nil {
		return writtenFile{}, err
	}
	if err := w.Write(ctx, in.Path, edited.Content, edited.Version); err != nil {
		return writtenFile{}, err
	}
	return writtenFile{Path: in.Path, Size: len(edited.Content), Replacements: edited.Count, Updated: true}, nil
}

// quoteStart returns the beginning of a text, for a question.
func quoteStart(s string) string {
	if len(s) <= maxQuestion {
		return s
	}
	shown := toolset.WholeCharacters([]byte(s[:maxQuestion]))
	return fmt.Sprintf("%s… (%d bytes more)", shown, len(s)-len(shown))
}

// maxDepth limits how many levels of directories are listed.
const maxDepth = 5

type listWorkspaceFilesInput struct {
	agentInput
	Path   string `json:"path,omitempty"`
	Depth  int    `json:"depth,omitempty" jsonschema:"levels of directories" default:"1" maximum:"5"`
	Limit  int    `json:"limit,omitempty"`
	Cursor string `json:"cursor,omitempty"`
}

type workspaceFile struct {
	Path     string `json:"path"`
	Type     string `json:"type"`
	Size     int64  `json:"size"`
	Modified string `json:"modified"`
}

type listWorkspaceFilesOutput struct {
	listOutput[workspaceFile]
	Note string `json:"note,omitempty"`
}

func listWorkspaceFiles(ctx context.Context, call *toolset.Call, w inside.Workspace, in listWorkspaceFilesInput) (listWorkspaceFilesOutput, error) {
	page, err := toolset.NewPage(in.Limit, in.Cursor)
	if err != nil {
		return listWorkspaceFilesOutput{}, err
	}
	entries, more, err := w.List(ctx, cmp.Or(in.Path, "."), bounded(in.Depth, 1, maxDepth))
	if err != nil {
		return listWorkspaceFilesOutput{}, err
	}
	slices.SortFunc(entries, func(a, b inside.Entry) int { return cmp.Compare(a.Path, b.Path) })
	out := listWorkspaceFilesOutput{listOutput: onePage(page, entries, "", func(e *inside.Entry) workspaceFile {
		return workspaceFile{Path: toolset.CleanText(e.Path), Type: e.Type(), Size: e.Size, Modified: time.Unix(e.Modified, 0).UTC().Format(time.RFC3339)}
	})}
	if more {
		out.Truncated = true
		out.Note = "there are too many files to list all; give a narrower path or a smaller depth, or use a command"
	}
	return out, nil
}

type listWorkspacePortsInput struct {
	agentInput
	Limit  int    `json:"limit,omitempty"`
	Cursor string `json:"cursor,omitempty"`
}

// workspacePort is a port on which a program listens. It is reachable from other pods
// unless it is bound to the loopback address; "kubectl coder port-forward" reaches both.
type workspacePort struct {
	Port     uint16 `json:"port"`
	Address  string `json:"address"`
	Loopback bool   `json:"loopback"`
}

func listWorkspacePorts(ctx context.Context, call *toolset.Call, w inside.Workspace, in listWorkspacePortsInput) (listOutput[workspacePort], error) {
	page, err := toolset.NewPage(in.Limit, in.Cursor)
	if err != nil {
		return listOutput[workspacePort]{}, err
	}
	listening, err := w.Ports(ctx)
	if err != nil {
		return listOutput[workspacePort]{}, err
	}
	ports := make([]workspacePort, 0, len(listening))
	for _, p := range listening {
		ports = append(ports, workspacePort{Port: p.Port(), Address: p.Addr().String(), Loopback: p.Addr().IsLoopback()})
	}
	return onePage(page, ports, "", func(p *workspacePort) workspacePort { return *p }), nil
}
