package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
)

func newWhoamiCommand(s *Session) *cobra.Command {
	var format cli.Format
	var everywhere bool
	cmd := &cobra.Command{
		Use:   "whoami",
		Short: "Show who you are in each Coder, and why",
		Long: "Shows the identity that you act as in the Coder of each control plane of the namespace: a Coder user, the operator, nobody,\n" +
			"or unmapped, and which rule of spec.identity.rules of the control plane decided that.\n\n" +
			"Exit codes: 0 success; 1 failure; 2 wrong command line; 3 success for some namespaces, the others are named.",
		Example: "  kubectl coder whoami -n coder\n  kubectl coder whoami -A -o json\n  kubectl coder whoami -n coder --as alice",
		Args:    cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			cluster, err := s.Cluster()
			if err != nil {
				return err
			}
			namespaces := []string{cluster.Namespace}
			if everywhere {
				var planes coderv1alpha1.CoderControlPlaneList
				if err := cluster.List(ctx, &planes); err != nil {
					return fmt.Errorf("listing the control planes: %w", err)
				}
				namespaces = nil
				for i := range planes.Items {
					namespaces = append(namespaces, planes.Items[i].Namespace)
				}
				slices.Sort(namespaces)
				namespaces = slices.Compact(namespaces)
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
			if format.Structured() {
				err = format.Write(s.Out, reviews)
			} else {
				namespace := cluster.Namespace
				if everywhere {
					namespace = ""
				}
				writeIdentities(s, reviews, namespace)
			}
			if err == nil && failed != nil {
				return &cli.ExitError{Code: cli.ExitPartial, Err: failed}
			}
			return err
		},
	}
	format.AddFlag(cmd, cli.JSON, cli.YAML)
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "show all namespaces that have a control plane")
	return cmd
}

func writeIdentities(s *Session, reviews []*aggregationv1alpha1.CoderSelfReview, namespace string) {
	table := cli.Table{Header: []string{"CONTROL PLANE", "ACTS AS", "RULE", "WHY"}, Columns: s.ScreenColumns}
	for _, review := range reviews {
		for i := range review.Status.ControlPlanes {
			self := &review.Status.ControlPlanes[i]
			rule := ""
			if self.Rule != nil {
				rule = fmt.Sprint(*self.Rule)
			}
			as := map[string]string{"Operator": "the operator", "Nobody": "nobody, refused", "Unmapped": "unmapped"}[self.ActsAs]
			switch {
			case self.CoderUser != "":
				as = "Coder user " + self.CoderUser
			case self.Problem != "":
				as = "nobody, refused"
			}
			why := cmp.Or(self.Problem, self.Reason)
			if self.Permission != "" {
				why += "; changes need " + self.Permission
			}
			table.Add(cli.Text(review.Namespace+"/"+self.ControlPlane), cli.Text(as), cli.Text(rule), cli.Text(why))
		}
	}
	if len(reviews) > 0 {
		fmt.Fprintf(s.Out, "In Kubernetes you are %q.\n", reviews[0].Status.User)
	}
	if len(table.Rows) == 0 {
		fmt.Fprintln(s.Out, noControlPlane(namespace))
	}
	table.Write(s.Out, s.Paint)
}
