package cli

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWriteBelow(t *testing.T) {
	directory, outside := filepath.Join(t.TempDir(), "new"), t.TempDir()
	if err := WriteBelow(directory, "a/b", "name.yaml", []byte("x"), 0o700, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(directory, "a", "b", "name.yaml")); err != nil || string(got) != "x" {
		t.Errorf("the file has %q (%v)", got, err)
	}
	for link, target := range map[string]string{"folder": outside, "file.yaml": filepath.Join(outside, "file.yaml")} {
		if err := os.Symlink(target, filepath.Join(directory, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range [][2]string{
		{"", "../x.yaml"}, {"", "a/x.yaml"}, {"", `..\x.yaml`}, {"", ""}, {"", ".."}, {"", ".bashrc"},
		{"..", "x.yaml"}, {"a/../../b", "x.yaml"}, {"folder", "x.yaml"}, {"", "file.yaml"},
	} {
		if err := WriteBelow(directory, at[0], at[1], []byte("evil"), 0o700, 0o600); err == nil {
			t.Errorf("%q is written into %q", at[1], at[0])
		}
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("outside are %v (%v)", entries, err)
	}
}
