package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// plugin is the manifest for krew. Its name, coder, must be that of the file.
type plugin struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Spec       struct {
		Version          string           `json:"version"`
		Homepage         string           `json:"homepage"`
		ShortDescription string           `json:"shortDescription"`
		Description      string           `json:"description"`
		Platforms        []pluginPlatform `json:"platforms"`
	} `json:"spec"`
}

type pluginPlatform struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	URI    string `json:"uri"`
	SHA256 string `json:"sha256"`
	Bin    string `json:"bin"`
}

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
	p := plugin{APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: map[string]string{"name": "coder"}}
	p.Spec.Version = *version
	p.Spec.Homepage = repository
	p.Spec.ShortDescription = "Operate Coder workspaces and templates"
	p.Spec.Description = "Shows the state of Coder on a cluster that runs coder-k8s: control planes, workspaces and problems.\n" +
		"Starts and stops workspaces, follows their logs, opens them, and keeps templates in files.\n"
	for _, archive := range set.Args() {
		platform, err := platformOf(archive, *base)
		if err != nil {
			return err
		}
		p.Spec.Platforms = append(p.Spec.Platforms, platform)
	}
	raw, err := yaml.Marshal(p)
	if err != nil {
		return err
	}
	_, err = stdout.Write(raw)
	return err
}

func platformOf(archive, base string) (pluginPlatform, error) {
	var p pluginPlatform
	name := filepath.Base(archive)
	parts := archiveName.FindStringSubmatch(name)
	if parts == nil {
		return p, fmt.Errorf("%s: an archive is named kubectl-coder_VERSION_OS_ARCH.tar.gz or .zip", archive)
	}
	content, err := os.ReadFile(archive)
	if err != nil {
		return p, err
	}
	p.Selector.MatchLabels = map[string]string{"os": parts[1], "arch": parts[2]}
	p.URI = strings.TrimSuffix(base, "/") + "/" + path.Base(name)
	p.SHA256 = fmt.Sprintf("%x", sha256.Sum256(content))
	p.Bin = "kubectl-coder"
	if parts[1] == "windows" {
		p.Bin += ".exe"
	}
	return p, nil
}
