package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"golang.org/x/mod/module"
)

// library is a module that is compiled into a program.
type library struct {
	Path, Version string
	// Sum is the module's h1: line of go.sum. The standard library has none.
	Sum string
	// Texts are its license and notice files, by name.
	Texts []text
	// Licenses are the SPDX identifiers found in them.
	Licenses []string
}

type text struct{ Name, Content string }

// standardLibrary is the name of Go's standard library in the list of modules.
const standardLibrary = "std"

// librariesOf returns the modules of the program at path, sorted, with their licenses from the
// module cache.
func librariesOf(path string) ([]library, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s does not say what it was built from: %w", path, err)
	}
	libraries := []library{{Path: standardLibrary, Version: strings.TrimPrefix(info.GoVersion, "go")}}
	for _, module := range info.Deps {
		libraries = append(libraries, libraryOf(module))
	}
	cache, root, err := goDirectories()
	if err != nil {
		return nil, err
	}
	for i := range libraries {
		directory := root
		if libraries[i].Path != standardLibrary {
			if directory, err = cachedModule(cache, libraries[i]); err != nil {
				return nil, err
			}
		}
		if err := libraries[i].readLicenses(directory); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(libraries, func(a, b library) int { return strings.Compare(a.Path, b.Path) })
	return libraries, nil
}

// libraryOf returns the compiled module: the replacement if there is one.
func libraryOf(m *debug.Module) library {
	if m.Replace != nil {
		m = m.Replace
	}
	return library{Path: m.Path, Version: m.Version, Sum: m.Sum}
}

func goDirectories() (cache, root string, err error) {
	answer, err := exec.Command("go", "env", "GOMODCACHE", "GOROOT").Output()
	if err != nil {
		return "", "", fmt.Errorf("go env: %w", err)
	}
	lines := strings.Split(string(answer), "\n")
	return lines[0], lines[1], nil
}

func cachedModule(cache string, l library) (string, error) {
	path, err := module.EscapePath(l.Path)
	if err != nil {
		return "", err
	}
	version, err := module.EscapeVersion(l.Version)
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, path+"@"+version), nil
}

// License files of parts that are not compiled, such as LICENSE.enterprise, have other names.
var licenseFile = regexp.MustCompile(`(?i)^(licen[sc]e|copying|notice)([-_](apache|mit|bsd|libyaml)[-0-9.]*)?(\.(md|txt|rst|mit))?$`)

// readLicenses reads the license files of the module in directory. A module without a license is an
// error, because it may not be distributed.
func (l *library) readLicenses(directory string) error {
	files, err := os.ReadDir(directory)
	if err != nil {
		return fmt.Errorf("the source of %s is not there (go mod download fetches it): %w", l.Path, err)
	}
	for _, file := range files {
		if file.IsDir() || !licenseFile.MatchString(file.Name()) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(directory, file.Name()))
		if err != nil {
			return err
		}
		l.Texts = append(l.Texts, text{Name: file.Name(), Content: strings.ReplaceAll(string(content), "\r\n", "\n")})
		if id := licenseID(string(content)); id != "" && !slices.Contains(l.Licenses, id) {
			l.Licenses = append(l.Licenses, id)
		}
	}
	if len(l.Texts) == 0 {
		return fmt.Errorf("%s %s has no license file in %s: find out under which license it may be passed on", l.Path, l.Version, directory)
	}
	slices.Sort(l.Licenses)
	return nil
}

// index is the list of images in an OCI image layout.
type index struct {
	Manifests []struct {
		Digest   string `json:"digest"`
		Platform *struct {
			OS           string `json:"os"`
			Architecture string `json:"architecture"`
		} `json:"platform"`
	} `json:"manifests"`
}

// runPlatforms prints the platform and the digest of each image in an OCI image layout, one per
// line.
func runPlatforms(args []string, stdout io.Writer) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: release platforms DIRECTORY")
	}
	path := filepath.Join(args[0], "index.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var images index
	if err := json.Unmarshal(raw, &images); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, image := range images.Manifests {
		if image.Platform == nil {
			return fmt.Errorf("%s: image %s does not say for which platform it is", path, image.Digest)
		}
		fmt.Fprintf(stdout, "%s/%s %s\n", image.Platform.OS, image.Platform.Architecture, image.Digest)
	}
	return nil
}
