package terminal

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
)

// Ask asks a question and returns true if the answer is y or yes. It returns false for
// anything else, including the end of the input. It returns early when the context is done.
func Ask(ctx context.Context, in io.Reader, out io.Writer, question string) (bool, error) {
	fmt.Fprintf(out, "%s [y/N] ", question)
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n')
		answer <- line
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(out)
		return false, ctx.Err()
	case line := <-answer:
		line = strings.ToLower(strings.TrimSpace(line))
		return line == "y" || line == "yes", nil
	}
}
