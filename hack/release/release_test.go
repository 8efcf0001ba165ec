package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// write creates a file in a directory of its own and returns its path.
func write(t *testing.T, name, content string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func made(t *testing.T, args ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := run(args, &out); err != nil {
		t.Fatalf("release %v: %v", args, err)
	}
	return out.Bytes()
}

func TestArchivesAreTheSameBytes(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	for _, name := range []string{"a.tar.gz", "a.zip"} {
		var all [][]byte
		// Another folder, another umask, another order.
		for i, mode := range []os.FileMode{0o600, 0o755} {
			program, license := write(t, "program", "binary", mode), write(t, "LICENSE", "text", mode)
			files := []string{program + ":app:755", license + ":LICENSE"}
			if i == 1 {
				slices.Reverse(files)
			}
			out := filepath.Join(t.TempDir(), name)
			made(t, append([]string{"archive", "-out", out}, files...)...)
			raw, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, raw)
		}
		if !bytes.Equal(all[0], all[1]) {
			t.Errorf("%s: the same files give two different archives", name)
		}
		if got, want := list(t, name, all[0]), "LICENSE -rw-r--r-- 1700000000 text\napp -rwxr-xr-x 1700000000 binary\n"; got != want {
			t.Errorf("%s holds\n%swant\n%s", name, got, want)
		}
	}
}

// list returns one line for each file in an archive: name, mode, time and content.
func list(t *testing.T, name string, raw []byte) string {
	t.Helper()
	var b strings.Builder
	line := func(name string, mode os.FileMode, when time.Time, r io.Reader) {
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %s %d %s\n", name, mode, when.Unix(), content)
	}
	if strings.HasSuffix(name, ".zip") {
		archive, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range archive.File {
			r, err := file.Open()
			if err != nil {
				t.Fatal(err)
			}
			line(file.Name, file.Mode(), file.Modified, r)
			r.Close()
		}
		return b.String()
	}
	plain, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(plain)
	for {
		header, err := archive.Next()
		if err == io.EOF {
			return b.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		line(header.Name, header.FileInfo().Mode(), header.ModTime, archive)
	}
}

func TestRefusals(t *testing.T) {
	file := write(t, "kubectl-coder_v1_plan9_amd64.tar.gz", "x", 0o600)
	missing := filepath.Join(t.TempDir(), "missing")
	out := filepath.Join(t.TempDir(), "out.tar.gz")
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"no command", nil, "no command"},
		{"unknown command", []string{"sign"}, `unknown command "sign"`},
		{"format", []string{"archive", "-out", "a.rar", file + ":a"}, "it must end in .tar.gz or .zip"},
		{"no files", []string{"archive", "-out", out}, "no files for the archive"},
		{"out of the archive", []string{"archive", "-out", out, file + ":../a"}, "must be a path inside the archive"},
		{"mode", []string{"archive", "-out", out, file + ":a:9"}, "must be octal"},
		{"twice", []string{"archive", "-out", out, file + ":a", missing + ":a"}, `are both to be "a"`},
		{"missing file", []string{"archive", "-out", out, missing + ":a"}, "no such file"},
		{"no Go program", []string{"sbom", "-name", "a", "-version", "v1", "-license", "MIT", file}, "does not say what it was built from"},
		{"archive of an unknown system", []string{"krew", "-version", "v1", "-base", "https://x", file}, "is named kubectl-coder_VERSION_OS_ARCH"},
		{"no layout", []string{"platforms", missing}, "no such file"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := run(test.args, io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(out), "*")); len(left) > 0 {
		t.Errorf("what failed left %v behind", left)
	}
}

// TestSBOM creates the SBOM of this test program, whose modules are known.
func TestSBOM(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"sbom", "-name", "coder-k8s", "-version", "v1.2.3", "-license", "Apache-2.0 AND AGPL-3.0-only"}
	raw := made(t, append(args, program)...)
	if !bytes.Equal(raw, made(t, append(args, program)...)) {
		t.Error("the same program gives two different lists")
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(raw), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	whole := bom.Metadata.Component
	if whole.Type != cdx.ComponentTypeApplication || whole.Version != "v1.2.3" || bom.Metadata.Timestamp != "2023-11-14T22:13:20Z" {
		t.Errorf("the list is about %+v, of %s", whole, bom.Metadata.Timestamp)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := (*whole.Hashes)[0].Value, fmt.Sprintf("%x", sha256.Sum256(content)); got != want {
		t.Errorf("hash %s, want that of the program, %s", got, want)
	}
	found := map[string]string{}
	for _, c := range *bom.Components {
		found[c.PackageURL] = (*c.Licenses)[0].License.ID
	}
	for purl, license := range map[string]string{
		"pkg:golang/github.com/CycloneDX/cyclonedx-go@v0.12.0": "Apache-2.0",
		"pkg:golang/golang.org/x/mod@v0.39.0":                  "BSD-3-Clause",
	} {
		if found[purl] != license {
			t.Errorf("%s has license %q, want %s; the list has %v", purl, found[purl], license, found)
		}
	}

	digest := "sha256:" + strings.Repeat("ab", 32)
	raw = made(t, append(args, "-digest", digest, "-platform", "linux/arm64", program)...)
	var image cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(raw), cdx.BOMFileFormatJSON).Decode(&image); err != nil {
		t.Fatal(err)
	}
	if c := image.Metadata.Component; c.Type != cdx.ComponentTypeContainer || !strings.HasPrefix(c.PackageURL, "pkg:oci/coder-k8s@"+digest) {
		t.Errorf("the list of the image is about %+v", c)
	}
	if image.SerialNumber == bom.SerialNumber {
		t.Error("the lists of a program and of its image have one serial number")
	}
}

func TestLicensesOfOthersGoAlong(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	texts := string(made(t, "licenses", program))
	for _, want := range []string{"The Go standard library", "github.com/CycloneDX/cyclonedx-go v0.12.0: LICENSE", "github.com/CycloneDX/cyclonedx-go v0.12.0: NOTICE"} {
		if !strings.Contains(texts, want) {
			t.Errorf("%q is missing", want)
		}
	}
}

func TestModuleWithoutLicense(t *testing.T) {
	l := library{Path: "example.com/a", Version: "v1.0.0"}
	if err := l.readLicenses(t.TempDir()); err == nil || !strings.Contains(err.Error(), "example.com/a v1.0.0 has no license file") {
		t.Errorf("error %v, want that the module has no license file", err)
	}
}

func TestLicenseFile(t *testing.T) {
	for name, want := range map[string]bool{
		"LICENSE": true, "license.txt": true, "LICENCE.md": true, "COPYING": true, "NOTICE": true, "LICENSE-APACHE-2.0.txt": true, "LICENSE.MIT": true,
		"LICENSE.enterprise": false, "licenses.go": false, "README.md": false,
	} {
		if got := licenseFile.MatchString(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestKrew(t *testing.T) {
	linux := write(t, "kubectl-coder_v1.2.3_linux_amd64.tar.gz", "linux", 0o600)
	windows := write(t, "kubectl-coder_v1.2.3_windows_arm64.zip", "windows", 0o600)
	got := string(made(t, "krew", "-version", "v1.2.3", "-base", "https://example.com/v1.2.3", linux, windows))
	want := fmt.Sprintf(`  platforms:
  - bin: kubectl-coder
    selector:
      matchLabels:
        arch: amd64
        os: linux
    sha256: %x
    uri: https://example.com/v1.2.3/kubectl-coder_v1.2.3_linux_amd64.tar.gz
  - bin: kubectl-coder.exe
    selector:
      matchLabels:
        arch: arm64
        os: windows
    sha256: %x
    uri: https://example.com/v1.2.3/kubectl-coder_v1.2.3_windows_arm64.zip
`, sha256.Sum256([]byte("linux")), sha256.Sum256([]byte("windows")))
	if !strings.Contains(got, want) || !strings.Contains(got, "  name: coder\n") || !strings.Contains(got, "  version: v1.2.3\n") {
		t.Errorf("the manifest is\n%s\nwant in it\n%s", got, want)
	}
}

func TestPlatforms(t *testing.T) {
	index := write(t, "index.json", `{"manifests": [
		{"digest": "sha256:aa", "platform": {"os": "linux", "architecture": "amd64"}},
		{"digest": "sha256:bb", "platform": {"os": "linux", "architecture": "arm64"}}]}`, 0o600)
	if got, want := string(made(t, "platforms", filepath.Dir(index))), "linux/amd64 sha256:aa\nlinux/arm64 sha256:bb\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestReplacedModule(t *testing.T) {
	got := libraryOf(&debug.Module{Path: "tailscale.com", Version: "v1.80.3", Replace: &debug.Module{Path: "github.com/coder/tailscale", Version: "v1.1.1", Sum: "h1:x"}})
	if got.Path != "github.com/coder/tailscale" || got.Version != "v1.1.1" || got.Sum != "h1:x" {
		t.Errorf("%+v, want the replacement, which is what was compiled", got)
	}
}
