package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

const (
	repository = "https://github.com/coder-k8s/coder-k8s"
	// rootCertificates is the module with the certificate authorities that hack/image copies into
	// the image.
	rootCertificates = "golang.org/x/crypto/x509roots/fallback"
)

// subject is the program or image that an SBOM describes.
type subject struct {
	Name, Version, License string
	// Digest is the digest of the image, as sha256:..., and Platform its platform, as linux/amd64.
	// Both are empty for a program.
	Digest, Platform string
}

// runSBOM writes the SBOM of a program, or of the image that contains it, in CycloneDX format.
func runSBOM(args []string, when time.Time, stdout io.Writer) error {
	set := flag.NewFlagSet("release sbom", flag.ContinueOnError)
	var about subject
	set.StringVar(&about.Name, "name", "", "what the program or image is called")
	set.StringVar(&about.Version, "version", "", "its version, as v1.2.3")
	set.StringVar(&about.License, "license", "", "the license of the whole, as an SPDX expression")
	set.StringVar(&about.Digest, "digest", "", "of the image that has the program, as sha256:...")
	set.StringVar(&about.Platform, "platform", "", "of the image, as linux/amd64")
	imageTool := set.String("image-tool", "", "the `program` of hack/image, which brought the certificates into the image")
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() != 1 || about.Name == "" || about.Version == "" || about.License == "" {
		return errors.New("usage: release sbom -name NAME -version VERSION -license LICENSE PROGRAM")
	}
	libraries, err := librariesOf(set.Arg(0))
	if err != nil {
		return err
	}
	if *imageTool != "" {
		of, err := librariesOf(*imageTool)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(of, func(l library) bool { return l.Path == rootCertificates })
		if i < 0 {
			return fmt.Errorf("%s does not contain %s: where does the image have its certificates from?", *imageTool, rootCertificates)
		}
		libraries = append(libraries, of[i])
	}
	program, err := os.ReadFile(set.Arg(0))
	if err != nil {
		return err
	}
	return cdx.NewBOMEncoder(stdout, cdx.BOMFileFormatJSON).SetPretty(true).Encode(billOf(about, sha256.Sum256(program), libraries, when))
}

// billOf returns the SBOM. sum is the SHA-256 of the program.
func billOf(about subject, sum [sha256.Size]byte, libraries []library, when time.Time) *cdx.BOM {
	bom := cdx.NewBOM()
	bom.SerialNumber = serialNumber(about, sum)
	whole := about.component(sum)
	bom.Metadata = &cdx.Metadata{
		Timestamp: when.Format(time.RFC3339),
		Tools: &cdx.ToolsChoice{Components: &[]cdx.Component{{
			Type: cdx.ComponentTypeApplication, Name: "coder-k8s/hack/release", Version: about.Version,
		}}},
		Component: &whole,
	}
	var components []cdx.Component
	var references []string
	for _, l := range libraries {
		c := l.component()
		components = append(components, c)
		references = append(references, c.BOMRef)
	}
	bom.Components = &components
	// A program contains the list of its modules, but not their dependencies.
	bom.Dependencies = &[]cdx.Dependency{{Ref: whole.BOMRef, Dependencies: &references}}
	return bom
}

// serialNumber returns a deterministic UUID of version 8, which is different for different content.
func serialNumber(about subject, sum [sha256.Size]byte) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %x", about.Name, about.Version, about.Digest, sum))
	h[6] = h[6]&0x0f | 0x80
	h[8] = h[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

func (s subject) component(sum [sha256.Size]byte) cdx.Component {
	c := cdx.Component{
		Type:       cdx.ComponentTypeApplication,
		Name:       s.Name,
		Version:    s.Version,
		PackageURL: "pkg:golang/github.com/coder-k8s/coder-k8s@" + s.Version + "#cmd/" + s.Name,
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sum)}},
		Licenses:   &cdx.Licenses{{Expression: s.License}},
		ExternalReferences: &[]cdx.ExternalReference{
			{Type: cdx.ERTypeVCS, URL: repository},
		},
	}
	if s.Digest != "" {
		c.Type = cdx.ComponentTypeContainer
		c.PackageURL = fmt.Sprintf("pkg:oci/%s@%s?platform=%s&repository_url=ghcr.io/coder-k8s/%[1]s", s.Name, s.Digest, s.Platform)
		c.Properties = &[]cdx.Property{{Name: "coder-k8s:platform", Value: s.Platform}}
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: s.Digest[len("sha256:"):]}}
	}
	c.BOMRef = c.PackageURL
	return c
}

func (l library) component() cdx.Component {
	c := cdx.Component{
		Type: cdx.ComponentTypeLibrary, Name: l.Path, Version: l.Version,
		PackageURL: "pkg:golang/" + l.Path + "@" + l.Version,
	}
	c.BOMRef = c.PackageURL
	if l.Sum != "" {
		// Not a hash of a file, so it is no hash of CycloneDX.
		c.Properties = &[]cdx.Property{{Name: "go:sum", Value: l.Sum}}
	}
	if len(l.Licenses) > 0 {
		licenses := cdx.Licenses{}
		for _, id := range l.Licenses {
			licenses = append(licenses, cdx.LicenseChoice{License: &cdx.License{ID: id}})
		}
		c.Licenses = &licenses
	}
	return c
}

// runLicenses writes the license texts of the modules in a program. Most of these licenses require
// that their text is distributed with the binary.
func runLicenses(args []string, stdout io.Writer) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: release licenses PROGRAM")
	}
	libraries, err := librariesOf(args[0])
	if err != nil {
		return err
	}
	_, err = io.WriteString(stdout, licenseTexts(libraries))
	return err
}

func licenseTexts(libraries []library) string {
	var b strings.Builder
	b.WriteString("This program contains the following Go modules, each under its own license.\n")
	for _, l := range libraries {
		name := l.Path
		if name == standardLibrary {
			name = "The Go standard library"
		}
		for _, text := range l.Texts {
			fmt.Fprintf(&b, "\n%s\n%s %s: %s\n%[1]s\n\n%[5]s\n", strings.Repeat("=", 80), name, l.Version, text.Name, strings.TrimSpace(text.Content))
		}
	}
	return b.String()
}

// The sentences that identify a license. The first match applies. BSD with two clauses is the one
// with three clauses without its third.
var licenseSentences = []struct{ id, sentence string }{
	{"AGPL-3.0-only", "GNU AFFERO GENERAL PUBLIC LICENSE Version 3"},
	{"Apache-2.0", "Apache License Version 2.0"},
	{"MPL-2.0", "Mozilla Public License Version 2.0"},
	{"MPL-2.0", "Mozilla Public License, version 2.0"},
	{"BSD-3-Clause", "may be used to endorse or promote products derived from this software without"},
	{"BSD-2-Clause", "Redistributions in binary form must reproduce the above copyright notice"},
	{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"CC0-1.0", "CC0 1.0 Universal"},
	{"ISC", "Permission to use, copy, modify, and/or distribute this software for any purpose"},
	{"ISC", "Permission to use, copy, modify, and distribute this software for any purpose"},
}

// licenseID returns the SPDX identifier of a license text. It returns an empty string for other
// texts: a notice is not a license.
func licenseID(content string) string {
	words := strings.ToLower(strings.Join(strings.Fields(content), " "))
	for _, l := range licenseSentences {
		if strings.Contains(words, strings.ToLower(l.sentence)) {
			return l.id
		}
	}
	return ""
}
