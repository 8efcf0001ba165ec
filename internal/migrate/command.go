package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/coder-k8s/coder-k8s/internal/cli"
)

// NewCommand returns the command "coder-k8s migrate".
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	command := &cobra.Command{
		Use:   "migrate",
		Short: "Migrate a Coder from another installation method",
		RunE: func(*cobra.Command, []string) error {
			return cli.Usage("name what to migrate from: \"migrate helm\"")
		},
	}
	command.AddCommand(newHelmCommand(streams))
	return command
}

const helmLong = `Write manifests for a release of Coder's Helm charts.

The values come from the release in the cluster (--release), from files of values
(--values, in the order in which helm got them), or from the manifest of the Secret
in which Helm keeps the release (--release-secret).

The manifest goes to standard output or into a directory (--output), the report to
standard error or into a file (--report). The report lists which value maps to which
field, which values do not, and what to do about them. Secrets are not copied: the
report lists the Secrets to create.

Nothing in the cluster is changed, unless --take-over is given: then the running
Deployment, Service, ServiceAccount and Ingress are handed over to the operator as
they are. If the pods would have to be replaced, it reports the differences and
stops, unless --allow-restart is given. --dry-run reports all that and changes nothing.

The exit code is 0 for success, 3 if some values could not be read and the rest
was done, 2 for a wrong command line and 1 for any other failure.`

func newHelmCommand(streams genericiooptions.IOStreams) *cobra.Command {
	options := &options{streams: streams, config: cli.NewKubeconfig()}
	command := &cobra.Command{
		Use:   "helm (--release NAME | --values FILE | --release-secret FILE)",
		Short: "Write manifests for a Helm release, or take the release over in place",
		Long:  helmLong,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.Usage("%q is not understood; the release is named with --release", args[0])
			}
			return nil
		},
		RunE: func(command *cobra.Command, _ []string) error {
			return options.run(command.Context())
		},
	}
	flags := command.Flags()
	flags.StringVar(&options.release, "release", "", "name of the release in the cluster; with --values, only the name")
	flags.StringArrayVarP(&options.values, "values", "f", nil, "file of values, HelmRelease or Application; again for each further one, or - for standard input")
	flags.StringVar(&options.releaseSecret, "release-secret", "", "file with the manifest of the Secret in which Helm keeps the release")
	flags.StringVar(&options.chart, "chart", "", "coder or coder-provisioner; by default that of the release, or the one that the values belong to")
	flags.StringVarP(&options.output, "output", "o", "-", "directory for the manifest, or - for standard output")
	flags.StringVar(&options.report, "report", "", "file for the report instead of standard error")
	flags.BoolVar(&options.takeOver, "take-over", false, "hand the running objects over to the operator; needs --release")
	flags.BoolVar(&options.dryRun, "dry-run", false, "with --take-over: report what would happen, and change nothing")
	flags.BoolVar(&options.allowRestart, "allow-restart", false, "with --take-over: continue even if the pods have to be replaced")
	flags.DurationVar(&options.timeout, "timeout", defaultTimeout, "with --take-over: how long to wait until the operator has taken the objects over")
	options.config.AddFlags(flags)
	return command
}

const (
	defaultTimeout = 2 * time.Minute

	directoryMode = 0o755
	fileMode      = 0o644
	standard      = "-"
)

// options are the flags of "migrate helm".
type options struct {
	streams genericiooptions.IOStreams
	config  *cli.Kubeconfig

	release, releaseSecret, chart string
	values                        []string
	output, report                string

	takeOver, dryRun, allowRestart bool
	timeout                        time.Duration
}

func (o *options) check() error {
	switch {
	case o.release == "" && o.releaseSecret == "" && len(o.values) == 0:
		return cli.Usage("say where the values are: --release NAME, --values FILE or --release-secret FILE")
	case o.releaseSecret != "" && (o.release != "" || len(o.values) > 0):
		return cli.Usage("--release-secret already has the name and the values; give it alone")
	case o.chart != "" && o.chart != ChartCoder && o.chart != ChartProvisioner:
		return cli.Usage("--chart %q is not a chart of Coder: give %s or %s", o.chart, ChartCoder, ChartProvisioner)
	case o.takeOver && (o.release == "" || len(o.values) > 0):
		return cli.Usage("--take-over needs --release, because the objects of the release in the cluster are taken over")
	case !o.takeOver && (o.dryRun || o.allowRestart):
		return cli.Usage("--dry-run and --allow-restart belong to --take-over; without it nothing is changed anyway")
	case o.timeout <= 0:
		return cli.Usage("--timeout must be above 0, for example 2m")
	}
	return nil
}

func (o *options) run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	source, partial := o.source(ctx)
	var left *cli.ExitError
	if partial != nil && !errors.As(partial, &left) {
		return partial
	}
	manifest, report := Convert(source)
	if len(o.values) > 0 && !report.Understood {
		return nothingUnderstood(source)
	}
	if err := validNames(source, manifest); err != nil {
		return err
	}
	if o.takeOver {
		return errors.Join(o.handOver(ctx, source, manifest, report), unread(report))
	}
	report.Steps = append(report.Steps, nextSteps(source, manifest)...)
	if err := o.write(manifest, report); err != nil {
		return err
	}
	return errors.Join(partial, unread(report))
}

// nothingUnderstood returns the error for files without a value of the chart. The manifest would
// contain only defaults.
func nothingUnderstood(source Source) error {
	all := []error{fmt.Errorf("nothing in %s is a value of the chart %s; nothing was written", source.Description, source.Chart)}
	for _, entry := range source.Elsewhere {
		all = append(all, fmt.Errorf("%s: %s %s", entry.Where, entry.Value, entry.Note))
	}
	return errors.Join(all...)
}

// validNames refuses names that are invalid in Kubernetes. The names become parts of file names and of
// commands.
func validNames(source Source, manifest *Manifest) error {
	for _, name := range []struct{ what, text string }{
		{"release", source.Release}, {"namespace", source.Namespace}, {manifest.Kind, manifest.Name},
	} {
		if wrong := validation.IsDNS1123Subdomain(name.text); len(wrong) > 0 {
			return fmt.Errorf("the name of the %s would be %q, which is not valid: %s", name.what, name.text, strings.Join(wrong, ", "))
		}
	}
	return nil
}

func (o *options) write(manifest *Manifest, report *Report) error {
	text, err := manifest.YAML()
	if err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	if o.output == standard {
		_, err = o.streams.Out.Write(text)
	} else {
		err = cli.WriteBelow(o.output, ".", manifest.FileName(), text, directoryMode, fileMode)
	}
	if err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	if o.output != standard {
		fmt.Fprintf(o.streams.ErrOut, "wrote %s\n", filepath.Join(o.output, manifest.FileName()))
	}
	if o.report == "" {
		return report.Write(o.streams.ErrOut)
	}
	file, err := os.OpenFile(o.report, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, fileMode)
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if err := errors.Join(report.Write(file), file.Close()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// unread returns an error with the values that could not be read, or nil.
func unread(report *Report) error {
	var all []error
	for _, entry := range report.Of(Unreadable) {
		all = append(all, fmt.Errorf("%s: %s %s", entry.Where, entry.Value, entry.Note))
	}
	if len(all) == 0 {
		return nil
	}
	return &cli.ExitError{Code: cli.ExitPartial, Err: errors.Join(all...)}
}

func (o *options) readFile(name string) ([]byte, error) {
	if name == standard {
		return io.ReadAll(o.streams.In)
	}
	return os.ReadFile(name) // #nosec G304 -- the file that the caller named.
}
