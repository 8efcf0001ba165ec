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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/version"
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
	options := &options{streams: streams, config: cli.NewKubeconfig()}
	helm := &cobra.Command{
		Use:   "helm (--release NAME | --values FILE | --release-secret FILE)",
		Short: "Write manifests for a Helm release, or take the release over in place",
		Long:  helmLong,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.Usage("%q is not understood; the release is named with --release", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return options.run(cmd.Context()) },
	}
	flags := helm.Flags()
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
	command.AddCommand(helm)
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
		// The manifest would contain only defaults.
		all := []error{fmt.Errorf("nothing in %s is a value of the chart %s; nothing was written", source.Description, source.Chart)}
		for _, entry := range source.Elsewhere {
			all = append(all, fmt.Errorf("%s: %s %s", entry.Where, entry.Value, entry.Note))
		}
		return errors.Join(all...)
	}
	// The names become parts of file names and of commands.
	for _, name := range []struct{ what, text string }{
		{"release", source.Release}, {"namespace", source.Namespace}, {manifest.Kind, manifest.Name},
	} {
		if wrong := validation.IsDNS1123Subdomain(name.text); len(wrong) > 0 {
			return fmt.Errorf("the name of the %s would be %q, which is not valid: %s", name.what, name.text, strings.Join(wrong, ", "))
		}
	}
	if o.takeOver {
		return errors.Join(o.handOver(ctx, source, manifest, report), unread(report))
	}
	report.Steps = append(report.Steps,
		fmt.Sprintf("Check whether the cluster accepts it: `kubectl apply --dry-run=server -f %s`.", manifest.FileName()),
		fmt.Sprintf("Take the running objects over in place: `coder-k8s migrate helm --release %s -n %s --take-over --dry-run` says what would happen.",
			source.Release, source.Namespace),
		fmt.Sprintf("Or move with a pause: docs/how-to/migrate-from-helm.md. A %s does not touch objects of the release that were not handed over.",
			strings.ToLower(manifest.Kind)))
	if err := o.write(manifest, report); err != nil {
		return err
	}
	return errors.Join(partial, unread(report))
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

// handOver takes the running objects over, or only prints the plan.
func (o *options) handOver(ctx context.Context, source Source, manifest *Manifest, report *Report) error {
	kube, err := o.client()
	if err != nil {
		return err
	}
	t := &takeover{
		Client: kube, Manifest: manifest, Release: source.Release, Deployment: DeploymentName(source.Chart, source.Values),
	}
	plan, err := t.Plan(ctx)
	if err != nil {
		return errors.Join(err, o.write(manifest, report))
	}
	kind := strings.ToLower(manifest.Kind)
	report.Steps = append(report.Steps,
		fmt.Sprintf("Store the manifest with your other manifests: it is what `kubectl -n %s get %s %s` returns now.",
			manifest.Namespace, kind, manifest.Name),
		fmt.Sprintf("Do not run `helm uninstall %s`: it would delete the objects that were taken over. Until Helm's record of the release is deleted, `helm upgrade` may overwrite it.",
			source.Release),
		fmt.Sprintf("When everything works, delete Helm's record of the release: `kubectl -n %s delete secret -l owner=helm,name=%s`. This deletes only data of Helm.",
			source.Namespace, source.Release),
		"Other objects of the chart stay until you delete them: Role and RoleBinding for workspaces, for which the operator has its own, and what came from `extraTemplates`.",
		fmt.Sprintf("To go back, before Helm's record is deleted: `kubectl -n %s delete %s %s --cascade=orphan`, then `helm -n %s upgrade` as before.",
			manifest.Namespace, kind, manifest.Name, source.Namespace))
	if err := o.write(manifest, report); err != nil {
		return err
	}
	o.tellPlan(plan)
	switch {
	case o.dryRun:
		return nil
	case len(plan.Differences) > 0 && !o.allowRestart:
		return errors.New("nothing was changed, because pods would be replaced, one by one; " +
			"give --allow-restart to go on, or correct the fields above in the release first")
	}
	before, err := t.Pods(ctx)
	if err != nil {
		return err
	}
	if err := t.Run(ctx, plan, o.timeout); err != nil {
		return err
	}
	after, err := t.Pods(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(o.streams.ErrOut, "taken over: %s %s/%s; %d of %d pods are still the same\n",
		t.Manifest.Kind, t.Manifest.Namespace, t.Manifest.Name, before.Intersection(after).Len(), before.Len())
	return nil
}

func (o *options) tellPlan(plan *takeoverPlan) {
	verb := "hands over"
	if o.dryRun {
		verb = "would hand over"
	}
	fmt.Fprintf(o.streams.ErrOut, "\n%s: %s\n", verb, strings.Join(plan.Objects, ", "))
	if plan.Already {
		fmt.Fprintln(o.streams.ErrOut, "the operator already owns the Deployment")
	}
	if len(plan.Differences) == 0 {
		fmt.Fprintln(o.streams.ErrOut, "the pods stay: their template is equal")
		return
	}
	fmt.Fprintln(o.streams.ErrOut, "the pods would be replaced one by one, because of:")
	for _, difference := range plan.Differences {
		fmt.Fprintf(o.streams.ErrOut, "  %s\n", difference)
	}
}

func (o *options) client() (client.Client, error) {
	config, err := o.config.Cluster(version.UserAgent())
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), coderv1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("bug: %w", err)
	}
	kube, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("reaching the cluster: %w", err)
	}
	return kube, nil
}
