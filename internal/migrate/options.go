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

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/migrate/manifests"
	"github.com/coder-k8s/coder-k8s/internal/migrate/report"
)

const (
	defaultTimeout = 2 * time.Minute

	directoryMode = 0o755
	fileMode      = 0o644
	standard      = "-"
)

// options are the flags of "migrate helm".
type options struct {
	streams genericiooptions.IOStreams
	config  *genericclioptions.ConfigFlags

	release, releaseSecret, chart string
	values                        []string
	output, report                string

	takeOver, dryRun, allowRestart bool
	timeout                        time.Duration
}

// check refuses invalid combinations of flags.
func (o *options) check() error {
	switch {
	case o.release == "" && o.releaseSecret == "" && len(o.values) == 0:
		return cli.Usage("say where the values are: --release NAME, --values FILE or --release-secret FILE")
	case o.releaseSecret != "" && (o.release != "" || len(o.values) > 0):
		return cli.Usage("--release-secret already has the name and the values; give it alone")
	case o.chart != "" && o.chart != manifests.ChartCoder && o.chart != manifests.ChartProvisioner:
		return cli.Usage("--chart %q is none of Coder's: give %s or %s", o.chart, manifests.ChartCoder, manifests.ChartProvisioner)
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
	var left *cli.PartialError
	if partial != nil && !errors.As(partial, &left) {
		return partial
	}
	manifest, told := manifests.Convert(source)
	if err := named(source, manifest); err != nil {
		return err
	}
	if o.takeOver {
		return errors.Join(o.handOver(ctx, source, manifest, told), unread(told))
	}
	told.Steps = append(told.Steps, nextSteps(source, manifest)...)
	if err := o.write(manifest, told); err != nil {
		return err
	}
	return errors.Join(partial, unread(told))
}

// named refuses names that are invalid in Kubernetes. The names become parts of file names and of
// commands.
func named(source manifests.Source, manifest *manifests.Manifest) error {
	for _, name := range []struct{ what, text string }{
		{"release", source.Release}, {"namespace", source.Namespace}, {manifest.Kind, manifest.Name},
	} {
		if wrong := validation.IsDNS1123Subdomain(name.text); len(wrong) > 0 {
			return fmt.Errorf("the %s would be called %q, which is no name for it: %s", name.what, name.text, strings.Join(wrong, ", "))
		}
	}
	return nil
}

// write writes the manifest and the report.
func (o *options) write(manifest *manifests.Manifest, told *report.Report) error {
	text, err := manifest.YAML()
	if err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	if o.output == standard {
		if _, err := o.streams.Out.Write(text); err != nil {
			return fmt.Errorf("writing the manifest: %w", err)
		}
	} else if err := o.writeFile(text, manifest.FileName()); err != nil {
		return err
	}
	return o.writeReport(told)
}

func (o *options) writeFile(text []byte, name string) error {
	if err := cli.WriteBelow(o.output, ".", name, text, directoryMode, fileMode); err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	fmt.Fprintf(o.streams.ErrOut, "wrote %s\n", filepath.Join(o.output, name))
	return nil
}

func (o *options) writeReport(told *report.Report) error {
	if o.report == "" {
		return told.Write(o.streams.ErrOut)
	}
	file, err := os.OpenFile(o.report, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, fileMode)
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if err := errors.Join(told.Write(file), file.Close()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// unread returns an error with the values that could not be read, or nil.
func unread(told *report.Report) error {
	var all []error
	for _, entry := range told.Of(report.Unreadable) {
		all = append(all, fmt.Errorf("%s: %s %s", entry.Where, entry.Value, entry.Note))
	}
	if len(all) == 0 {
		return nil
	}
	return &cli.PartialError{Err: errors.Join(all...)}
}

// readFile reads a file, or standard input.
func (o *options) readFile(name string) ([]byte, error) {
	if name == standard {
		return io.ReadAll(o.streams.In)
	}
	return os.ReadFile(name) // #nosec G304 -- the file that the caller named.
}
