package supportbundle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/installation"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
	"github.com/coder-k8s/coder-k8s/internal/version"
)

// options are the flags and the dependencies of the command.
type options struct {
	kube    *cli.Kubeconfig
	streams genericiooptions.IOStreams
	output  string
	timeout time.Duration
	maxSize string
	// c is the collector, of which some fields are flags.
	c collector
}

// NewCommand returns the command "coder-k8s support-bundle".
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	return command(streams, time.Now, installation.Check)
}

// command is NewCommand with the dependencies that tests replace.
func command(streams genericiooptions.IOStreams, now func() time.Time, check checkFunc) *cobra.Command {
	o := &options{kube: cli.NewKubeconfig(), streams: streams, c: collector{now: now, check: check, redactor: &redaction.Redactor{}}}
	cmd := &cobra.Command{
		Use:   "support-bundle",
		Short: "Collect what an issue report needs, without secrets",
		Long: "Support-bundle writes an archive with the data that an issue report needs: versions, the objects of\n" +
			"the installation and of the control planes, events, logs, readiness, and problems. It reads\n" +
			"with your own permissions and changes nothing. Secrets are removed; its README lists how, and what\n" +
			"could not be collected.\n\n" +
			"Exit code: 0 complete, 1 no archive, 2 the command line is wrong, 3 incomplete: the missing parts are\n" +
			"named.",
		Example: "  coder-k8s support-bundle\n" +
			"  coder-k8s support-bundle -n coder --since 2h -o bundle.tar.gz",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.c.operatorNamespace, "operator-namespace", installation.Namespace, "the namespace of the operator")
	flags.StringVarP(&o.output, "output", "o", "", "the file to write; - is standard output (default coder-k8s-support-<time>.tar.gz)")
	flags.DurationVar(&o.c.since, "since", 24*time.Hour, "how far back logs go")
	flags.DurationVar(&o.timeout, "timeout", 3*time.Minute, "how long collecting may take")
	flags.StringVar(&o.maxSize, "max-size", "100Mi", "maximum size of the collected data, before compression")
	o.kube.AddFlags(flags)
	flags.Lookup("namespace").Usage = "collect only the control planes of this namespace (default all)"
	return cmd
}

func (o *options) run(ctx context.Context) error {
	const least = 1 << 20
	size, err := resource.ParseQuantity(o.maxSize)
	switch {
	case err != nil || size.Value() < least:
		return cli.Usage("--max-size is %q; give at least 1Mi, for example 100Mi", o.maxSize)
	case o.c.since <= 0:
		return cli.Usage("--since is %s; give how far back logs go, for example 24h", o.c.since)
	case o.timeout <= 0:
		return cli.Usage("--timeout is %s; give how long collecting may take, for example 3m", o.timeout)
	case o.c.operatorNamespace == "":
		return cli.Usage("--operator-namespace is empty")
	}
	c := &o.c
	c.archive = newArchive(size.Value())
	if err := o.connect(); err != nil {
		return err
	}
	// An error status is a response too.
	if _, err := c.kube.Discovery().ServerVersion(); err != nil && !errors.As(err, new(apierrors.APIStatus)) {
		return fmt.Errorf("kube-apiserver at %s does not respond, so there is no archive; check your kubeconfig: %w", c.config.Host, err)
	}
	fmt.Fprintln(o.streams.ErrOut, "Collecting with your permissions. Nothing in the cluster is changed.")
	collecting, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	c.collect(collecting)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("collecting was interrupted, so there is no archive: %w", err)
	}
	// The README is not subject to --max-size.
	c.archive.files["README.md"] = content{text: c.readme()}
	folder := "coder-k8s-support-" + c.now().UTC().Format("20060102T150405Z")
	name := cmp.Or(o.output, folder+".tar.gz")
	if err := o.save(name, func(to io.Writer) error { return c.archive.write(to, folder, c.now(), c.redactor) }); err != nil {
		return err
	}
	if name != "-" {
		fmt.Fprintln(o.streams.Out, name)
	}
	if len(c.left) == 0 {
		return nil
	}
	for _, line := range c.left {
		fmt.Fprintln(o.streams.ErrOut, "left out: "+cli.Clean(c.redactor.Text(line)))
	}
	return &cli.ExitError{Code: cli.ExitPartial, Err: fmt.Errorf("the archive is incomplete: see above, or its README")}
}

func (o *options) connect() error {
	c := &o.c
	var err error
	if c.config, err = o.kube.Cluster(version.UserAgent()); err != nil {
		return err
	}
	if c.kube, err = kubernetes.NewForConfig(c.config); err != nil {
		return fmt.Errorf("using the kubeconfig: %w", err)
	}
	if c.dynamic, err = dynamic.NewForConfig(c.config); err != nil {
		return fmt.Errorf("using the kubeconfig: %w", err)
	}
	c.namespace = o.kube.Flags.Context.Namespace
	for _, secret := range []string{c.config.BearerToken, c.config.Password, string(c.config.KeyData)} {
		c.redactor.Learn(secret)
	}
	return nil
}

// save creates the file with permissions for its owner only. It does not overwrite a file.
func (o *options) save(name string, write func(io.Writer) error) error {
	if name == "-" {
		return write(o.streams.Out)
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("making the archive: %w; choose another name with --output", err)
	}
	if err := errors.Join(write(file), file.Close()); err != nil {
		return errors.Join(fmt.Errorf("writing the archive %s: %w", name, err), os.Remove(name))
	}
	return nil
}
