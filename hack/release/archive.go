package main

import (
	"archive/tar"
	"archive/zip"
	"cmp"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// entry is a file of an archive.
type entry struct {
	source, name string
	mode         fs.FileMode
}

// runArchive writes a .tar.gz or, for Windows, a .zip. The file gets its name only when it is
// complete.
func runArchive(args []string, when time.Time) error {
	set := flag.NewFlagSet("release archive", flag.ContinueOnError)
	out := set.String("out", "", "the `file` to write, .tar.gz or .zip")
	if err := set.Parse(args); err != nil {
		return err
	}
	write := writeTarGzip
	switch {
	case strings.HasSuffix(*out, ".tar.gz"):
	case strings.HasSuffix(*out, ".zip"):
		write = writeZip
	default:
		return fmt.Errorf("-out %q: it must end in .tar.gz or .zip", *out)
	}
	entries, err := parseEntries(set.Args())
	if err != nil {
		return err
	}
	partial := *out + ".partial"
	file, err := os.Create(partial)
	if err != nil {
		return err
	}
	defer os.Remove(partial)
	if err := write(file, entries, when); err != nil {
		file.Close()
		return fmt.Errorf("writing %s: %w", *out, err)
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(partial, *out)
}

// parseEntries parses SOURCE:NAME[:MODE] and sorts by name.
func parseEntries(args []string) ([]entry, error) {
	var entries []entry
	for _, arg := range args {
		parts := strings.Split(arg, ":")
		if len(parts) != 2 && len(parts) != 3 {
			return nil, fmt.Errorf("%q: a file is given as SOURCE:NAME[:MODE]", arg)
		}
		e := entry{source: parts[0], name: parts[1], mode: 0o644}
		if len(parts) == 3 {
			mode, err := strconv.ParseUint(parts[2], 8, 9)
			if err != nil {
				return nil, fmt.Errorf("%q: the mode %q must be octal, as 755", arg, parts[2])
			}
			e.mode = fs.FileMode(mode)
		}
		if !fs.ValidPath(e.name) {
			return nil, fmt.Errorf("%q: the name %q must be a path inside the archive", arg, e.name)
		}
		entries = append(entries, e)
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("no files for the archive: give them as SOURCE:NAME[:MODE]")
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	for i := 1; i < len(entries); i++ {
		if entries[i].name == entries[i-1].name {
			return nil, fmt.Errorf("%s and %s are both to be %q", entries[i-1].source, entries[i].source, entries[i].name)
		}
	}
	return entries, nil
}

func writeTarGzip(out io.Writer, entries []entry, when time.Time) error {
	// The gzip header contains neither a name nor a time.
	compressed := gzip.NewWriter(out)
	archive := tar.NewWriter(compressed)
	for _, e := range entries {
		info, err := os.Stat(e.source)
		if err != nil {
			return err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Size: info.Size(), Mode: int64(e.mode), ModTime: when, Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if err := copyFile(archive, e.source); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return compressed.Close()
}

func writeZip(out io.Writer, entries []entry, when time.Time) error {
	archive := zip.NewWriter(out)
	for _, e := range entries {
		header := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: when}
		header.SetMode(e.mode)
		file, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		if err := copyFile(file, e.source); err != nil {
			return err
		}
	}
	return archive.Close()
}

func copyFile(to io.Writer, source string) error {
	file, err := os.Open(source)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(to, file)
	return err
}
