package bucket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

// maxMessage is the maximum length of a message.
const maxMessage = 600

// problem is an error with the reason of a condition.
type problem struct {
	reason, message string
	cause           error
	// retry means that another attempt may succeed.
	retry bool
}

func (p *problem) Error() string { return p.message }

// Unwrap returns the error of the client.
func (p *problem) Unwrap() error { return p.cause }

func unusable(format string, args ...any) error {
	return &problem{reason: coderv1alpha1.ReasonBackupUnusable, message: fmt.Sprintf(format, args...)}
}

func unsuitable(format string, args ...any) error {
	return &problem{reason: coderv1alpha1.ReasonBucketUnsuitable, message: fmt.Sprintf(format, args...)}
}

// NewCommand returns the command that the containers of a Job run. It is not for users, so the help does not
// list it. The environment is that of resources.DatabaseJob. A failure is written to $RESULT as reason and message, as by database.sh. Exit code 3 means that
// another attempt would fail too.
func NewCommand() *cobra.Command {
	return &cobra.Command{
		Use: resources.BucketCommand, Hidden: true, Short: "Transfer the files of a backup (for the Jobs of CoderBackups)",
		Args: cobra.ExactArgs(1), ValidArgs: []string{resources.BucketBegin, resources.BucketUpload, resources.BucketDownload, resources.BucketDelete},
		RunE: func(cmd *cobra.Command, args []string) error {
			err := run(cmd.Context(), args[0], os.Getenv)
			if err == nil || cmd.Context().Err() != nil {
				return err
			}
			p := &problem{reason: coderv1alpha1.ReasonBackupFailed, message: err.Error(), retry: true}
			errors.As(err, &p)
			message := oneLine(p.message)
			path := cmp.Or(os.Getenv("RESULT"), "/dev/termination-log")
			if err := os.WriteFile(path, fmt.Appendf(nil, "reason=%s\nmessage=%s\n", p.reason, message), 0o600); err != nil {
				return fmt.Errorf("%s; it cannot be reported: %w", message, err)
			}
			if p.retry {
				return errors.New(message)
			}
			return &cli.ExitError{Code: resources.ExitHopeless, Err: errors.New(message)}
		},
	}
}

func run(ctx context.Context, command string, getenv func(string) string) error {
	b, err := open(getenv)
	if err != nil {
		return err
	}
	switch command {
	case resources.BucketBegin:
		return b.begin(ctx)
	case resources.BucketUpload:
		return b.upload(ctx)
	case resources.BucketDownload:
		return b.download(ctx)
	case resources.BucketDelete:
		return b.delete(ctx)
	}
	return cli.Usage("%q is not a command of %s", command, resources.BucketCommand)
}

// oneLine returns a text, which may come from a server, as one line of limited length.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(cli.Visible(text)), " ")
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "..."
	}
	return text
}
