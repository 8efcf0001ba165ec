// Command terminal converts the terminal output of a program to a picture: it reads the output,
// including escape sequences, from standard input and writes SVG to standard output.
// hack/docs/screenshots.sh uses it.
//
// Invariants:
//   - The same input results in the same bytes.
//   - Unknown escape sequences are ignored and never shown.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	command := flag.String("command", "", "the command line that is shown above its output")
	columns := flag.Int("columns", 0, "how wide the terminal was; 0 is as wide as the longest line")
	while := flag.String("while", "", "show the last screen that had this text, not that at the end: for what is written over")
	cast := flag.Bool("cast", false, "read a recording of asciinema, and write a picture that moves")
	flag.Parse()
	draw := func() error { return run(os.Stdin, os.Stdout, *columns, *command, *while) }
	if *cast {
		draw = func() error { return animate(os.Stdin, os.Stdout) }
	}
	if err := draw(); err != nil {
		fmt.Fprintln(os.Stderr, "terminal:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer, columns int, command, while string) error {
	shown := &screen{columns: columns}
	if command != "" {
		shown.write("\x1b[2m$\x1b[0m \x1b[1m" + command + "\x1b[0m\r\n")
	}
	last, found := shown, while == ""
	reader := bufio.NewReader(in)
	for {
		sequence, err := next(reader)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read the output of the command: %w", err)
		}
		// A line is about to be overwritten, so its current content is complete.
		if while != "" && rewrites(sequence) && shown.has(while) {
			last, found = shown.copy(), true
		}
		shown.write(sequence)
	}
	if !found {
		return fmt.Errorf("no screen of the command had the text %q", while)
	}
	_, err := io.WriteString(out, picture(last))
	return err
}
