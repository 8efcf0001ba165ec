package tools

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

const (
	// shownFiles is the maximum number of files that are listed without having been requested.
	shownFiles = 200
	// maxSourceBytes limits the text of all files in an answer.
	maxSourceBytes = 256 << 10
	// mostNamed is the maximum number of files that a note names.
	mostNamed = 20
)

// templateFile is a file of a template. Text is set if the file was requested. Redacted reports
// that it differs from the source.
type templateFile struct {
	Path     string `json:"path"`
	Bytes    int    `json:"bytes"`
	Text     string `json:"text,omitempty"`
	Redacted bool   `json:"redacted,omitempty"`
}

// addFiles lists the files, with the text of those that match a pattern.
func (d *templateDetails) addFiles(tmpl *aggregationv1alpha1.CoderTemplate, patterns []string) {
	if source := tmpl.Status.Source; source != nil {
		d.FileCount, d.SizeBytes = int(source.FileCount), source.SizeBytes
	}
	var omitted []string
	unlisted, redacted, room := false, false, maxSourceBytes
	for _, name := range slices.Sorted(maps.Keys(tmpl.Spec.Files)) {
		source := tmpl.Spec.Files[name]
		requested := slices.ContainsFunc(patterns, func(pattern string) bool { return matchesFile(pattern, name) })
		if !requested && len(d.Files) >= shownFiles {
			unlisted = true
			continue
		}
		file := templateFile{Path: toolset.CleanText(name), Bytes: len(source)}
		if text := toolset.CleanSource(name, source); requested && len(text) <= room {
			file.Text, file.Redacted = text, text != source
			redacted, room = redacted || file.Redacted, room-len(text)
		} else if requested {
			omitted = append(omitted, file.Path)
		}
		d.Files = append(d.Files, file)
	}
	if unlisted {
		d.Notes = append(d.Notes, "files are more than are shown: fileCount says how many")
	}
	if redacted {
		d.Notes = append(d.Notes, fmt.Sprintf("files with redacted: true differ from the source: secrets are replaced by %s, and invisible characters are removed; "+
			"push_template refuses such text and, with keepFiles, keeps these files as they are", redaction.Placeholder))
	}
	if len(omitted) > 0 {
		d.Notes = append(d.Notes, fmt.Sprintf("the text of %d files is left out, because an answer has at most %d KiB of text; request fewer files: %s",
			len(omitted), maxSourceBytes>>10, strings.Join(omitted[:min(len(omitted), mostNamed)], ", ")))
	}
	d.noteUnmatched(tmpl, patterns)
}

// noteUnmatched adds a note for each pattern without a file.
func (d *templateDetails) noteUnmatched(tmpl *aggregationv1alpha1.CoderTemplate, patterns []string) {
	if len(patterns) > 0 && hidesFiles(tmpl) {
		d.Notes = append(d.Notes, "the API does not serve the files of this template; condition FilesAvailable says why")
		return
	}
	for _, pattern := range patterns[:min(len(patterns), mostNamed)] {
		found := false
		for name := range tmpl.Spec.Files {
			found = found || matchesFile(pattern, name)
		}
		if !found {
			d.Notes = append(d.Notes, fmt.Sprintf("no file matches %q", redaction.Truncate(toolset.CleanText(pattern), mostNamed*5)))
		}
	}
}

// matchesFile reports whether the pattern is the path of a file, or matches the path or its
// last element. An invalid pattern matches only a file of this name.
func matchesFile(pattern, file string) bool {
	whole, _ := path.Match(pattern, file)
	last, _ := path.Match(pattern, path.Base(file))
	return whole || last || pattern == file
}

// hidesFiles reports whether the template has files that the API does not serve in the object.
func hidesFiles(tmpl *aggregationv1alpha1.CoderTemplate) bool {
	return len(tmpl.Spec.Files) == 0 && tmpl.Status.Source != nil && tmpl.Status.Source.FileCount > 0
}

// keepsFiles reports whether files that the call does not name stay in the template.
func (in pushTemplateInput) keepsFiles() bool { return in.KeepFiles || len(in.RemoveFiles) > 0 }

// source returns the files of the new version.
func (in pushTemplateInput) source(before map[string]string) map[string]string {
	switch {
	case len(in.Files)+len(in.RemoveFiles) == 0:
		return before
	case !in.keepsFiles():
		return in.Files
	}
	after := maps.Clone(in.Files)
	if after == nil {
		after = map[string]string{}
	}
	for name, text := range before {
		if _, changed := in.Files[name]; !changed && !slices.Contains(in.RemoveFiles, name) {
			after[name] = text
		}
	}
	return after
}

// checkFiles returns an error if files cannot be kept or removed.
func (in pushTemplateInput) checkFiles(tmpl *aggregationv1alpha1.CoderTemplate) error {
	if in.keepsFiles() && len(in.Files)+len(in.RemoveFiles) > 0 && hidesFiles(tmpl) {
		return toolset.UsageError(fmt.Sprintf("the API does not serve the files of template %s (condition FilesAvailable says why), so the others cannot be kept: "+
			"give the whole source in files, without keepFiles and removeFiles", tmpl.Name))
	}
	for _, name := range in.RemoveFiles {
		if _, known := tmpl.Spec.Files[name]; !known {
			return toolset.UsageError(fmt.Sprintf("template %s has no file %q to remove: get_template lists its files", tmpl.Name, name))
		}
		if _, given := in.Files[name]; given {
			return toolset.UsageError(fmt.Sprintf("file %q is in files and in removeFiles: give it once", name))
		}
	}
	if len(in.RemoveFiles) > 0 && len(in.source(tmpl.Spec.Files)) == 0 {
		return toolset.UsageError(fmt.Sprintf("template %s would have no file left: give at least one in files", tmpl.Name))
	}
	return nil
}
