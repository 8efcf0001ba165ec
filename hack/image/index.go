package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
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
