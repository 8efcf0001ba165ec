package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// WriteBelow writes a file of this name into a folder below a directory, and nowhere
// else: also where a link in the directory leads out of it. Folders that are not
// there are made. The name may come from anywhere; one that is none of a file is an
// error.
func WriteBelow(directory, folder, name string, text []byte, folderMode, fileMode fs.FileMode) error {
	if name == "" || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "/\\\x00") || !filepath.IsLocal(name) {
		return fmt.Errorf("writing %q: that is no name of a file", name)
	}
	if err := os.MkdirAll(directory, folderMode); err != nil {
		return err
	}
	root, err := os.OpenRoot(directory)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if err := root.MkdirAll(filepath.Clean(folder), folderMode); err != nil {
		return fmt.Errorf("making the folder %s in %s: %w", folder, directory, err)
	}
	if err := root.WriteFile(filepath.Join(folder, name), text, fileMode); err != nil {
		return fmt.Errorf("writing %s in %s: %w", filepath.Join(folder, name), directory, err)
	}
	return nil
}
