package main

import (
	"bufio"
	"bytes"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/compression"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const indexUsage = "usage: image index [-out DIR] [-push NAME:TAG] IMAGE.tar..."

// runIndex combines the images of several platforms under one name, which clusters with different
// nodes pull, and prints the digest.
func runIndex(args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet("image index", flag.ContinueOnError)
	fs.Usage = func() { fmt.Fprintln(fs.Output(), indexUsage); fs.PrintDefaults() }
	out := fs.String("out", "", "the `directory` to write as an OCI image layout; it must not exist")
	push := fs.String("push", "", "the `name:tag` to push to, with the credentials of docker login")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() == 0 || *out == "" && *push == "" {
		return fmt.Errorf("images and -out or -push are needed; %s", indexUsage)
	}
	index, err := indexOf(fs.Args())
	if err != nil {
		return err
	}
	if *out != "" {
		if _, err := os.Lstat(*out); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("-out %s is there already: remove it, or name another directory", *out)
		}
		if _, err := layout.Write(*out, index); err != nil {
			return fmt.Errorf("writing %s: %w", *out, err)
		}
	}
	if *push != "" {
		if err := pushIndex(*push, index); err != nil {
			return err
		}
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, digest)
	return nil
}

// indexOf returns an index of the images in tars, each of which has a different platform.
func indexOf(tars []string) (v1.ImageIndex, error) {
	// The media type of an index for images from docker archives.
	index := mutate.IndexMediaType(empty.Index, types.DockerManifestList)
	seen := map[string]string{}
	for _, tar := range tars {
		img, err := tarball.ImageFromPath(tar, nil)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", tar, err)
		}
		cfg, err := img.ConfigFile()
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", tar, err)
		}
		platform := cfg.Platform()
		if other := seen[platform.String()]; other != "" {
			return nil, fmt.Errorf("%s and %s are both for %s", other, tar, platform)
		}
		seen[platform.String()] = tar
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: platform}})
	}
	return index, nil
}

func pushIndex(to string, index v1.ImageIndex) error {
	ref, err := name.NewTag(to, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("-push %q: %w", to, err)
	}
	if err := remote.WriteIndex(ref, index, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("pushing to %s: %w", to, err)
	}
	return nil
}

// writeImage writes one layer per tree. The file gets its name only when it is complete.
func writeImage(out, tag string, trees []*tree, arch string, cfg v1.Config, when time.Time, gzip bool) error {
	ref, err := name.NewTag(tag, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("-tag %q: %w", tag, err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(out), ".image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)

	created := v1.Time{Time: when}
	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{Architecture: arch, OS: "linux", Created: created, Config: cfg,
		RootFS: v1.RootFS{Type: "layers"}})
	if err != nil {
		return err
	}
	comp := compression.None
	if gzip {
		comp = compression.GZip
	}
	for i, t := range trees {
		file := filepath.Join(tmp, fmt.Sprintf("layer%d.tar", i))
		if err := writeTree(file, t, when); err != nil {
			return err
		}
		layer, err := tarball.LayerFromFile(file, tarball.WithCompression(comp))
		if err != nil {
			return err
		}
		img, err = mutate.Append(img, mutate.Addendum{Layer: layer, History: v1.History{Created: created, CreatedBy: "hack/image"}})
		if err != nil {
			return err
		}
	}
	whole := filepath.Join(tmp, "image.tar")
	if err := tarball.WriteToFile(whole, ref, img); err != nil {
		return err
	}
	return os.Rename(whole, out)
}

func writeTree(file string, t *tree, when time.Time) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	if err := t.write(w, when); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}

const certificatesPath = "/etc/ssl/certs/ca-certificates.crt"

// distrolessTree returns the files that a static program needs besides itself. The certificates are
// Mozilla's list as the Go project distributes it. Those of this machine are not used, because it
// may trust authorities that users do not trust.
func distrolessTree() (*tree, error) {
	t := newTree()
	var certificates bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue // Trusted for some names only, which a PEM file cannot say.
		}
		if err := pem.Encode(&certificates, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	for _, dir := range []string{"/tmp:1777", "/home/nonroot:755", "/root:700"} {
		if err := t.addDir(dir); err != nil {
			return nil, err
		}
	}
	for _, text := range []string{
		"/etc/passwd=root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n",
		"/etc/group=root:x:0:\nnobody:x:65534:\nnonroot:x:65532:\n",
		"/etc/nsswitch.conf=hosts: files dns\n",
		certificatesPath + "=" + certificates.String(),
	} {
		if err := t.addText(text); err != nil {
			return nil, err
		}
	}
	return t, nil
}
