package status

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/spf13/cobra"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/installation"
	"github.com/coder-k8s/coder-k8s/internal/plugin/session"
)

// ExitWrong is the exit code if there is a problem.
const ExitWrong = 4

// run is one run of the command.
type run struct {
	*session.Session
	format                   cli.Format
	everywhere, installation bool
	watch                    bool
	interval                 time.Duration
	operatorNamespace        string
}

// NewCommand returns the command kubectl coder status.
func NewCommand(s *session.Session) *cobra.Command {
	r := &run{Session: s}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how Coder is on this cluster, what is wrong and since when",
		Long: "Shows control planes, provisioners, workspace proxies, and templates and workspaces by their state, and then what\n" +
			"is wrong with them and with the installation of the operator, since when, and what to do.\n\n" +
			"Exit codes: 0 nothing is wrong; 1 nothing could be seen; 2 wrong command line; 3 nothing is wrong with what could\n" +
			"be seen, and the rest is named; 4 something is wrong.",
		Example: "  kubectl coder status -A\n  kubectl coder status -n coder --watch\n  kubectl coder status -A -o json | jq .problems",
		Args:    cli.NoArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return r.do(cmd.Context()) },
	}
	r.format.AddFlag(cmd, cli.Wide, cli.JSON, cli.YAML)
	flags := cmd.Flags()
	flags.BoolVarP(&r.everywhere, "all-namespaces", "A", false, "look at all namespaces")
	flags.BoolVarP(&r.watch, "watch", "w", false, "go on until interrupted; without a terminal a report is printed when it changes")
	flags.DurationVar(&r.interval, "interval", 2*time.Second, "with --watch: how often to look, at least 1s")
	flags.BoolVar(&r.installation, "installation", true, "look at the installation of the operator too, which needs rights beyond a namespace")
	flags.StringVar(&r.operatorNamespace, "operator-namespace", installation.Namespace, "where the operator is installed")
	s.CompleteNamespaces(cmd, "operator-namespace")
	return cmd
}

func (r *run) do(ctx context.Context) error {
	if r.interval < time.Second {
		return cli.Usage("--interval is %s, and must be at least 1s", r.interval)
	}
	cluster, err := r.Cluster()
	if err != nil {
		return err
	}
	report, err := r.gather(ctx, cluster)
	if err == nil {
		err = r.show(report)
	}
	for before := report; r.watch; before = report {
		if r.Clock.Wait(ctx, r.interval) != nil {
			break
		}
		if report, err = r.gather(ctx, cluster); err != nil && ctx.Err() != nil {
			report, err = before, nil
			break
		}
		switch {
		case err != nil:
			fmt.Fprintf(r.ErrOut, "could not look: %v\n", err)
		case r.Screen || !reflect.DeepEqual(before, report):
			err = r.show(report)
		}
	}
	if err != nil || report == nil {
		return err
	}
	if code := report.code(); code != cli.ExitOK {
		return &cli.ExitError{Code: code}
	}
	return nil
}

// show prints the report. On a terminal, --watch replaces the previous report.
func (r *run) show(report *Report) error {
	if r.format.Structured() {
		return r.format.Write(r.Out, report)
	}
	var text bytes.Buffer
	if r.watch && r.Screen {
		text.WriteString("\x1b[H\x1b[2J")
	}
	r.draw(&text, report)
	if _, err := r.Out.Write(text.Bytes()); err != nil {
		return errors.Join(errors.New("writing the report"), err)
	}
	return nil
}
