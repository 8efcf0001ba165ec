package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

var archiveName = regexp.MustCompile(`^kubectl-coder_.+_(linux|darwin|windows)_(amd64|arm64)\.(tar\.gz|zip)$`)

// runKrew writes the manifest for archives of kubectl-coder that can be downloaded from the URL
// base.
func runKrew(args []string, stdout io.Writer) error {
	set := flag.NewFlagSet("release krew", flag.ContinueOnError)
	version := set.String("version", "", "the version, as v1.2.3")
	base := set.String("base", "", "the `address` of the directory with the archives")
	if err := set.Parse(args); err != nil {
		return err
	}
	if *version == "" || *base == "" || set.NArg() == 0 {
		return fmt.Errorf("usage: release krew -version VERSION -base URL ARCHIVE...")
	}
	var platforms []map[string]any
	for _, archive := range set.Args() {
		platform, err := platformOf(archive, *base)
		if err != nil {
			return err
		}
		platforms = append(platforms, platform)
	}
	raw, err := yaml.Marshal(map[string]any{
		"apiVersion": "krew.googlecontainertools.github.com/v1alpha2", "kind": "Plugin",
		// The name must be that of the file.
		"metadata": map[string]any{"name": "coder"},
		"spec": map[string]any{
			"version": *version, "homepage": repository, "shortDescription": "Operate Coder workspaces and templates",
			"description": "Shows the state of Coder on a cluster that runs coder-k8s: control planes, workspaces and problems.\n" +
				"Starts and stops workspaces, follows their logs, opens them, and keeps templates in files.\n",
			"platforms": platforms,
		},
	})
	if err != nil {
		return err
	}
	_, err = stdout.Write(raw)
	return err
}

// platformOf returns the entry of an archive in the manifest.
func platformOf(archive, base string) (map[string]any, error) {
	name := filepath.Base(archive)
	parts := archiveName.FindStringSubmatch(name)
	if parts == nil {
		return nil, fmt.Errorf("%s: an archive is named kubectl-coder_VERSION_OS_ARCH.tar.gz or .zip", archive)
	}
	content, err := os.ReadFile(archive)
	if err != nil {
		return nil, err
	}
	program := "kubectl-coder"
	if parts[1] == "windows" {
		program += ".exe"
	}
	return map[string]any{
		"selector": map[string]any{"matchLabels": map[string]any{"os": parts[1], "arch": parts[2]}},
		"uri":      strings.TrimSuffix(base, "/") + "/" + name,
		"sha256":   fmt.Sprintf("%x", sha256.Sum256(content)),
		"bin":      program,
	}, nil
}
