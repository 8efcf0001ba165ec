package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/compression"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

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
