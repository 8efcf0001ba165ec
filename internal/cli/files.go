package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// WriteBelow writes a file into a folder below a directory. It never writes outside of the
// directory, even if a symbolic link in it leads out of it. It creates missing folders. The
// name may come from an untrusted source; it returns an error if it is not a valid file
// name.
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
