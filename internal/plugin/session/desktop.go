package session

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
)

// browse opens an address with the system's default program.
func browse(ctx context.Context, url string) error {
	command := []string{"xdg-open", url}
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open", url}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler", url}
	}
	if err := exec.CommandContext(ctx, command[0], command[1:]...).Run(); err != nil { //nolint:gosec // A fixed program; the address is one argument.
		return fmt.Errorf("%s could not open a browser: %w", command[0], err)
	}
	return nil
}

// copyText passes the text to the first clipboard program that exists, on its standard input, so
// that the text is not in the list of processes.
func copyText(ctx context.Context, text string) error {
	var failed error
	for _, command := range [][]string{{"pbcopy"}, {"wl-copy"}, {"xclip", "-selection", "clipboard"}, {"xsel", "--clipboard", "--input"}, {"clip.exe"}} {
		path, err := exec.LookPath(command[0])
		if err != nil {
			continue
		}
		cmd := exec.CommandContext(ctx, path, command[1:]...) //nolint:gosec // One of the programs above.
		cmd.Stdin = strings.NewReader(text)
		if err := cmd.Run(); err != nil {
			failed = fmt.Errorf("%s: %w", command[0], err)
			continue
		}
		return nil
	}
	if failed != nil {
		return failed
	}
	return errors.New("there is no program for the clipboard: pbcopy, wl-copy, xclip, xsel or clip.exe")
}
