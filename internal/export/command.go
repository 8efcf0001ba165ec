package export

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/version"
)

// options are the flags of the command.
type options struct {
	kube           *cli.Kubeconfig
	streams        genericiooptions.IOStreams
	allNamespaces  bool
	controlPlane   string
	kinds          kinds
	owners         []string
	output, report string
}

// NewCommand returns the command "coder-k8s export".
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{kube: cli.NewKubeconfig(), streams: streams}
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print the workspaces, templates and users of a Coder as manifests",
		Long: "Export prints the templates and workspaces of a running Coder as CoderTemplate and CoderWorkspace\n" +
			"manifests, which apply to it without a change, and to another Coder that has the same\n" +
			"organizations and users. It asks the aggregated API of the cluster.\n" +
			"With --users it prints the users as CoderUser too, without their passwords.\n\n" +
			"Secret values are never exported. What was left out is named on standard error.\n" +
			"Exit code: 0 all was exported, 1 nothing was, 2 the command line is wrong, 3 something was left out.",
		Example: "  coder-k8s export -n coder -o manifests/",
		Args:    cli.NoArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "export those of all namespaces")
	flags.StringVar(&o.controlPlane, "control-plane", "", "export only those of this CoderControlPlane")
	flags.BoolVar(&o.kinds.templates, "templates", false, "export templates (default: templates and workspaces)")
	flags.BoolVar(&o.kinds.workspaces, "workspaces", false, "export workspaces (default: templates and workspaces)")
	flags.BoolVar(&o.kinds.users, "users", false, "export users; needs the permission to list coderusers")
	flags.StringSliceVar(&o.owners, "owner", nil, "export only workspaces of these users")
	flags.StringVarP(&o.output, "output", "o", "-", "the directory to write to; - is standard output")
	flags.StringVar(&o.report, "report", "", "also write the report, with what was left out and notes, to this file")
	o.kube.AddFlags(flags)
	return cmd
}

// kinds are the kinds to export.
type kinds struct{ templates, workspaces, users bool }

func (o *options) run(ctx context.Context) error {
	switch {
	case o.output == "":
		return cli.Usage("--output is empty; give a directory, or - for standard output")
	case o.allNamespaces && o.kube.Flags.Context.Namespace != "":
		return cli.Usage("--namespace and --all-namespaces cannot be used together")
	}
	if o.kinds == (kinds{}) {
		o.kinds = kinds{templates: true, workspaces: true}
	}
	r := &report{}
	all, err := o.read(ctx, r)
	if err != nil {
		return err
	}
	manifests := o.manifests(all, r)
	if err := o.write(manifests); err != nil {
		return err
	}
	fmt.Fprint(o.streams.ErrOut, r)
	if len(manifests) == 0 && len(r.leftOut) == 0 {
		fmt.Fprintln(o.streams.ErrOut, "There is nothing to export. Check that the namespace is correct, and that its control plane is ready.")
	}
	var failed error
	if o.report != "" {
		if err := os.WriteFile(o.report, []byte(r.String()), fileMode); err != nil {
			failed = fmt.Errorf("writing --report: %w", err)
		}
	}
	return errors.Join(failed, r.err(len(manifests)))
}

// read lists templates, workspaces and users.
func (o *options) read(ctx context.Context, r *report) (found, error) {
	config, err := o.kube.Cluster(version.UserAgent())
	if err != nil {
		return found{}, err
	}
	namespace := ""
	if !o.allNamespaces {
		if namespace, _, err = o.kube.Loader().Namespace(); err != nil {
			return found{}, fmt.Errorf("finding the namespace: %w", err)
		}
	}
	var warnings bytes.Buffer
	config.WarningHandler = rest.NewWarningWriter(&warnings, rest.WarningWriterOptions{Deduplicate: true})
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return found{}, fmt.Errorf("using the kubeconfig: %w", err)
	}
	var out found
	// Templates say which parameters of a workspace are secret.
	if o.kinds.templates || o.kinds.workspaces {
		readAll(ctx, o, client, namespace, "templates", &out.templates, r)
	}
	if o.kinds.workspaces {
		readAll(ctx, o, client, namespace, "workspaces", &out.workspaces, r)
	}
	if o.kinds.users {
		readAll(ctx, o, client, namespace, "users", &out.users, r)
	}
	for line := range strings.Lines(warnings.String()) {
		r.leave("objects may be missing or outdated: %s", strings.TrimPrefix(strings.TrimSpace(line), "Warning: "))
	}
	return out, nil
}

// readAll reads the objects of a resource, whose name follows the prefix coder. It skips an object
// that cannot be decoded.
func readAll[T any](ctx context.Context, o *options, client dynamic.Interface, namespace, name string, into *[]T, r *report) {
	objects := client.Resource(aggregationv1alpha1.GroupVersion.WithResource("coder" + name)).Namespace(namespace)
	selector := labels.Everything()
	if o.controlPlane != "" {
		selector = labels.SelectorFromSet(labels.Set{aggregationv1alpha1.LabelControlPlaneName: o.controlPlane})
	}
	list := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return objects.List(ctx, options)
	})
	err := list.EachListItem(ctx, metav1.ListOptions{LabelSelector: selector.String()}, func(obj runtime.Object) error {
		item := obj.(*unstructured.Unstructured)
		var object T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &object); err != nil {
			r.leave("%s %s/%s: it cannot be decoded, so this program may be older than the server: %v",
				item.GetKind(), item.GetNamespace(), item.GetName(), err)
			return nil
		}
		*into = append(*into, object)
		return nil
	})
	if apierrors.IsNotFound(err) {
		err = fmt.Errorf("the cluster does not serve %s; install coder-k8s and create a CoderControlPlane; for a Coder of the Helm chart, coder-k8s migrate helm prints one: %w",
			aggregationv1alpha1.GroupVersion, err)
	}
	if err != nil {
		r.leave("the %s: %v", name, err)
	}
}

// found contains the templates, workspaces and users of a Coder.
type found struct {
	templates  []aggregationv1alpha1.CoderTemplate
	workspaces []aggregationv1alpha1.CoderWorkspace
	users      []aggregationv1alpha1.CoderUser
}

func byName(a, b metav1.Object) int {
	return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
}
