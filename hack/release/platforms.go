package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

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
