package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
)

type whoamiRun struct {
	*Session
	format     cli.Format
	everywhere bool
}

func newWhoamiCommand(s *Session) *cobra.Command {
	r := &whoamiRun{Session: s}
	cmd := &cobra.Command{
		Use:   "whoami",
		Short: "Show who you are in each Coder, and why",
		Long: "Shows the identity that you act as in the Coder of each control plane of the namespace: a Coder user, the operator, nobody,\n" +
			"or unmapped, and which rule of spec.identity.rules of the control plane decided that.\n\n" +
			"Exit codes: 0 success; 1 failure; 2 wrong command line; 3 success for some namespaces, the others are named.",
		Example: "  kubectl coder whoami -n coder\n  kubectl coder whoami -A -o json\n  kubectl coder whoami -n coder --as alice",
		Args:    cli.NoArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return r.do(cmd.Context()) },
	}
	r.format.AddFlag(cmd, cli.JSON, cli.YAML)
	cmd.Flags().BoolVarP(&r.everywhere, "all-namespaces", "A", false, "show all namespaces that have a control plane")
	return cmd
}

func (r *whoamiRun) do(ctx context.Context) error {
	cluster, err := r.Cluster()
	if err != nil {
		return err
	}
	namespaces := []string{cluster.Namespace}
	if r.everywhere {
		if namespaces, err = cluster.NamespacesWithControlPlane(ctx); err != nil {
			return err
		}
	}
	reviews := []*aggregationv1alpha1.CoderSelfReview{}
	var failed error
	for _, namespace := range namespaces {
		review := &aggregationv1alpha1.CoderSelfReview{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}
		if err := cluster.Create(ctx, review); err != nil {
			failed = errors.Join(failed, fmt.Errorf("reading your identity in namespace %q: %w", namespace, err))
			continue
		}
		review.Namespace = namespace
		reviews = append(reviews, review)
	}
	if len(reviews) == 0 && failed != nil {
		return failed
	}
	if r.format.Structured() {
		err = r.format.Write(r.Out, reviews)
	} else {
		r.write(reviews, cluster.Namespace)
	}
	if err == nil && failed != nil {
		return &cli.ExitError{Code: cli.ExitPartial, Err: failed}
	}
	return err
}

func (r *whoamiRun) write(reviews []*aggregationv1alpha1.CoderSelfReview, namespace string) {
	table := cli.Table{Header: []string{"CONTROL PLANE", "ACTS AS", "RULE", "WHY"}, Columns: r.ScreenColumns}
	for _, review := range reviews {
		for i := range review.Status.ControlPlanes {
			self := &review.Status.ControlPlanes[i]
			rule := ""
			if self.Rule != nil {
				rule = fmt.Sprint(*self.Rule)
			}
			table.Add(cli.Text(review.Namespace+"/"+self.ControlPlane), cli.Text(actsAs(self)), cli.Text(rule), cli.Text(whyActsAs(self)))
		}
	}
	if len(reviews) > 0 {
		fmt.Fprintf(r.Out, "In Kubernetes you are %q.\n", reviews[0].Status.User)
	}
	if r.everywhere {
		namespace = ""
	}
	if len(table.Rows) == 0 {
		fmt.Fprintln(r.Out, noControlPlane(namespace))
	}
	table.Write(r.Out, r.Paint)
}

func actsAs(self *aggregationv1alpha1.CoderSelf) string {
	switch {
	case self.CoderUser != "":
		return "Coder user " + self.CoderUser
	case self.Problem != "":
		return "nobody, refused"
	}
	return map[string]string{"Operator": "the operator", "Nobody": "nobody, refused", "Unmapped": "unmapped"}[self.ActsAs]
}

func whyActsAs(self *aggregationv1alpha1.CoderSelf) string {
	text := cmp.Or(self.Problem, self.Reason)
	if self.Permission != "" {
		text += "; changes need " + self.Permission
	}
	return text
}
