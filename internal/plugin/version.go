package plugin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/installation"
	"github.com/coder-k8s/coder-k8s/internal/version"
)

// versions are the versions of all components.
type versions struct {
	Plugin     string `json:"plugin"`
	Kubernetes string `json:"kubernetes,omitempty"`
	// Operator contains the image of each Deployment of the operator.
	Operator map[string]string `json:"operator,omitempty"`
	// Coder contains the control planes of the namespace.
	Coder []coderVersion `json:"coder,omitempty"`
}

// coderVersion is the Coder of a control plane.
type coderVersion struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Version   string `json:"version"`
	// Supported and Message are those of the condition VersionSupported.
	Supported metav1.ConditionStatus `json:"supported,omitempty"`
	Message   string                 `json:"message,omitempty"`
}

// versionSupported returns the status and the message of the condition VersionSupported, which are
// empty while there is none.
func versionSupported(cp *coderv1alpha1.CoderControlPlane) (metav1.ConditionStatus, string) {
	if c := meta.FindStatusCondition(cp.Status.Conditions, coderv1alpha1.ConditionVersionSupported); c != nil {
		return c.Status, c.Message
	}
	return "", ""
}

// versionCell returns a version of Coder with a remark if coder-k8s does not support it.
func versionCell(text string, supported metav1.ConditionStatus) cli.Cell {
	switch supported {
	case metav1.ConditionFalse:
		return cli.Text(text + " (not supported)").In(cli.Yellow)
	case metav1.ConditionUnknown:
		return cli.Text(text + " (not a release)").In(cli.Yellow)
	}
	return cli.Text(text)
}

func newVersionCommand(s *Session) *cobra.Command {
	var format cli.Format
	var own bool
	var namespace string
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the versions of the plugin, of Kubernetes, of the operator and of Coder",
		Long:    "Prints the versions of the plugin and of Kubernetes, the images of the operator's Deployments, and the\nversion of each Coder in the namespace, with a remark if coder-k8s does not support it. Versions that cannot be\nread are reported on standard error and are not an error.",
		Example: "  kubectl coder version\n  kubectl coder version --client -o json",
		Args:    cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found := versions{Plugin: version.String()}
			if !own {
				found.look(cmd.Context(), s, namespace)
			}
			if format.Structured() {
				return format.Write(s.Out, found)
			}
			found.write(s)
			return nil
		},
	}
	format.AddFlag(cmd, cli.JSON, cli.YAML)
	cmd.Flags().BoolVar(&own, "client", false, "print only the version of the plugin, without requests to the cluster")
	cmd.Flags().StringVar(&namespace, "operator-namespace", installation.Namespace, "where the operator is installed")
	s.CompleteNamespaces(cmd, "operator-namespace")
	return cmd
}

func (v *versions) look(ctx context.Context, s *Session, namespace string) {
	cluster, err := s.Cluster()
	if err != nil {
		fmt.Fprintf(s.ErrOut, "The version of Kubernetes could not be read: %v\n", err)
		return
	}
	server, err := cluster.Kube.Discovery().ServerVersion()
	if err != nil {
		fmt.Fprintf(s.ErrOut, "The version of Kubernetes could not be read: %v\n", err)
		return
	}
	v.Kubernetes = server.GitVersion
	var deployments appsv1.DeploymentList
	err = cluster.List(ctx, &deployments, client.InNamespace(namespace), client.MatchingLabels{coderv1alpha1.LabelName: installation.Name})
	if err != nil {
		fmt.Fprintf(s.ErrOut, "The version of the operator could not be read: %v\n", err)
		return
	}
	v.Operator = map[string]string{}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		if containers := d.Spec.Template.Spec.Containers; len(containers) > 0 {
			v.Operator[d.Name] = containers[0].Image
		}
	}
	var planes coderv1alpha1.CoderControlPlaneList
	if err := cluster.List(ctx, &planes, client.InNamespace(cluster.Namespace)); err != nil {
		fmt.Fprintf(s.ErrOut, "The versions of Coder could not be read: %v\n", err)
	}
	for i := range planes.Items {
		cp := &planes.Items[i]
		found := coderVersion{Namespace: cp.Namespace, Name: cp.Name, Version: cp.Status.Version}
		found.Supported, found.Message = versionSupported(cp)
		v.Coder = append(v.Coder, found)
	}
}

func (v *versions) write(s *Session) {
	table := &cli.Table{}
	table.Add(cli.Text("kubectl coder"), cli.Text(v.Plugin))
	if v.Kubernetes != "" {
		table.Add(cli.Text("Kubernetes"), cli.Text(v.Kubernetes))
	}
	for _, name := range slices.Sorted(maps.Keys(v.Operator)) {
		table.Add(cli.Text("Deployment "+name), cli.Text(v.Operator[name]))
	}
	for _, coder := range v.Coder {
		table.Add(cli.Text("Coder "+coder.Namespace+"/"+coder.Name), versionCell(cmp.Or(coder.Version, "unknown"), coder.Supported))
	}
	table.Write(s.Out, s.Paint)
	for _, coder := range v.Coder {
		if coder.Supported == metav1.ConditionFalse || coder.Supported == metav1.ConditionUnknown {
			fmt.Fprintf(s.Out, "\n%s/%s: %s\n", cli.Clean(coder.Namespace), cli.Clean(coder.Name), cli.Wrap(cli.Clean(coder.Message), s.ScreenColumns, ""))
		}
	}
}

// explainUnavailable wraps each command: if the aggregated API returns that Coder is unavailable,
// the error lists the control planes that are not ready.
func explainUnavailable(s *Session, cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		explainUnavailable(s, child)
	}
	do := cmd.RunE
	if do == nil {
		return
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := do(cmd, args)
		if !apierrors.IsServiceUnavailable(err) {
			return err
		}
		for _, cause := range planesNotReady(cmd.Context(), s) {
			err = fmt.Errorf("%w\n%s", err, cause)
		}
		return fmt.Errorf("%w\nkubectl coder status shows what is wrong", err)
	}
}

// planesNotReady describes the control planes of the namespace that are not ready.
func planesNotReady(ctx context.Context, s *Session) []string {
	cluster, err := s.Cluster()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, CompletionTimeout)
	defer cancel()
	var planes coderv1alpha1.CoderControlPlaneList
	if err := cluster.List(ctx, &planes, client.InNamespace(cluster.Namespace)); err != nil {
		return nil
	}
	var causes []string
	for i := range planes.Items {
		cp := &planes.Items[i]
		ready := meta.FindStatusCondition(cp.Status.Conditions, coderv1alpha1.ConditionReady)
		if ready == nil || ready.Status == metav1.ConditionTrue && ready.Reason != coderv1alpha1.ReasonScaledToZero {
			continue
		}
		cause := fmt.Sprintf("control plane %s/%s is %s: %s", cp.Namespace, cp.Name, ready.Reason, strings.TrimSpace(ready.Message))
		if ready.Reason == coderv1alpha1.ReasonScaledToZero {
			cause += fmt.Sprintf("; kubectl -n %s scale codercontrolplane %s --replicas 1 starts it", cp.Namespace, cp.Name)
		}
		causes = append(causes, cause)
	}
	return causes
}
