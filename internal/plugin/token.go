package plugin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
)

// tokenSubresource is the one of coderworkspaces that all commands use.
const tokenSubresource = "token"

func newTokenCommand(s *Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "token",
		Aliases: []string{"tokens"},
		Short:   "Create, list and revoke tokens that are restricted to one workspace",
		Long: "Creates, lists and revokes tokens of Coder that are restricted to one workspace, for agents and CI.\n" +
			"A name without an owner, such as dev, is one of your own workspaces; for others give the owner too, as in ada.dev.",
		RunE: helpOrUnknown(nil),
	}
	cmd.AddCommand(newTokenCreateCommand(s), newTokenListCommand(s), newTokenRevokeCommand(s))
	return cmd
}

var oneWorkspaceName = arguments(1, 1, "give the name of one workspace")

func newTokenCreateCommand(s *Session) *cobra.Command {
	var format cli.Format
	var duration time.Duration
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a token of Coder that is restricted to one workspace",
		Long: "Prints a token of Coder with which its holder can read and enter one workspace, and no other. It is valid for at most\n" +
			"one hour, and ends with the workspace. It is one of your Coder user if spec.identity of the control plane maps you to\n" +
			"one, and otherwise of the owner of the workspace, whom you then must be permitted to impersonate.\n" +
			"It needs the verb create of coderworkspaces/token, which ClusterRole coder-k8s-workspace-tokens has.\n\n" +
			"Exit codes: 0 the token was created; 1 it was not; 2 wrong command line.",
		Example: "  kubectl coder token create ada.dev --duration 15m\n" +
			"  CODER_SESSION_TOKEN=$(kubectl coder token create ada.dev) coder ssh \"$(kubectl get cws coder.ada.dev -o jsonpath='{.status.id}')\"",
		Args:              oneWorkspaceName,
		ValidArgsFunction: s.CompleteName("CoderWorkspace"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			seconds := int64(duration / time.Second)
			if duration <= 0 || duration%time.Second != 0 {
				return cli.Usage("--duration is %s, and must be whole seconds", duration)
			}
			cluster, ws, err := s.OwnWorkspace(ctx, args[0])
			if err != nil {
				return err
			}
			token := &aggregationv1alpha1.CoderWorkspaceToken{Spec: aggregationv1alpha1.CoderWorkspaceTokenSpec{ExpirationSeconds: ptr.To(seconds)}}
			if err := cluster.SubResource(tokenSubresource).Create(ctx, ws, token); err != nil {
				return fmt.Errorf("creating a token of workspace %s: %w", ws.Name, err)
			}
			if format.Structured() {
				token.SetGroupVersionKind(aggregationv1alpha1.GroupVersion.WithKind("CoderWorkspaceToken"))
				return format.Write(s.Out, token)
			}
			fmt.Fprintf(s.ErrOut, "A token of Coder user %s, until %s. The workspace has the id %s in Coder.\n",
				cli.Clean(token.Status.CoderUser), token.Status.ExpirationTimestamp.UTC().Format(time.RFC3339), cli.Clean(token.Status.WorkspaceID))
			fmt.Fprintln(s.Out, cli.Clean(token.Status.Token))
			return nil
		},
	}
	format.AddFlag(cmd, cli.JSON, cli.YAML)
	cmd.Flags().DurationVar(&duration, "duration", time.Hour, "how long the token is valid: 1m to 1h")
	return cmd
}

func newTokenListCommand(s *Session) *cobra.Command {
	var format cli.Format
	cmd := &cobra.Command{
		Use:     "list NAME",
		Aliases: []string{"ls"},
		Short:   "List the tokens that are restricted to a workspace",
		Long: "Lists the tokens of a workspace that have not expired, and who requested them. Their values cannot be read.\n" +
			"It needs the verb get of coderworkspaces/token.\n\n" +
			"Exit codes: 0 they are listed; 1 they are not; 2 wrong command line.",
		Example:           "  kubectl coder token list ada.dev",
		Args:              oneWorkspaceName,
		ValidArgsFunction: s.CompleteName("CoderWorkspace"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			cluster, ws, err := s.OwnWorkspace(ctx, args[0])
			if err != nil {
				return err
			}
			list := &aggregationv1alpha1.CoderWorkspaceTokenList{}
			if err := send(ctx, cluster.subresource(http.MethodGet, ws, tokenSubresource, nil), list); err != nil {
				return fmt.Errorf("listing the tokens of workspace %s: %w", ws.Name, err)
			}
			if format.Structured() {
				list.SetGroupVersionKind(aggregationv1alpha1.GroupVersion.WithKind("CoderWorkspaceTokenList"))
				return format.Write(s.Out, list)
			}
			if len(list.Items) == 0 {
				fmt.Fprintf(s.Out, "Workspace %s has no tokens.\n", ws.Name)
				return nil
			}
			table := cli.Table{Header: []string{"ID", "CODER USER", "REQUESTED BY", "EXPIRES"}, Columns: s.ScreenColumns}
			for i := range list.Items {
				status := &list.Items[i].Status
				table.Add(cli.Text(status.TokenID), cli.Text(status.CoderUser), cli.Text(status.RequestedBy), cli.Text(status.ExpirationTimestamp.UTC().Format(time.RFC3339)))
			}
			table.Write(s.Out, s.Paint)
			return nil
		},
	}
	format.AddFlag(cmd, cli.JSON, cli.YAML)
	return cmd
}

func newTokenRevokeCommand(s *Session) *cobra.Command {
	var all, yes bool
	cmd := &cobra.Command{
		Use:   "revoke NAME {TOKEN-ID... | --all}",
		Short: "Revoke tokens that are restricted to a workspace",
		Long: "Revokes tokens of a workspace by their ids, or all of them. Coder refuses requests with them at once. Sessions that\n" +
			"exist continue. If you are mapped to a Coder user, Coder decides whether you may revoke the tokens of others.\n" +
			"It needs the verb delete of coderworkspaces/token.\n\n" +
			"Exit codes: 0 they are revoked; 1 not all are; 2 wrong command line.",
		Example: "  kubectl coder token revoke ada.dev OeJj2hDqVq\n  kubectl coder token revoke ada.dev --all --yes",
		Args: func(_ *cobra.Command, args []string) error {
			// The server would take an empty id, for example of an unset variable, for all tokens.
			if len(args) == 0 || all == (len(args) > 1) || slices.Contains(args, "") {
				return cli.Usage("give the name of one workspace, and the ids of tokens or --all")
			}
			return nil
		},
		ValidArgsFunction: s.CompleteName("CoderWorkspace"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			cluster, ws, err := s.OwnWorkspace(ctx, args[0])
			if err != nil {
				return err
			}
			var tokens []*metav1.Preconditions
			for _, id := range args[1:] {
				tokens = append(tokens, &metav1.Preconditions{UID: ptr.To(types.UID(id))})
			}
			if all {
				if err := s.Confirm(ctx, yes, fmt.Sprintf("Revoke all tokens of workspace %s?", ws.Name)); err != nil {
					return err
				}
				tokens = append(tokens, nil)
			}
			for _, token := range tokens {
				body, err := json.Marshal(metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}, Preconditions: token})
				if err != nil {
					return err
				}
				request := cluster.subresource(http.MethodDelete, ws, tokenSubresource, nil).SetHeader("Content-Type", "application/json").Body(body)
				revoked := &aggregationv1alpha1.CoderWorkspaceTokenList{}
				if err := send(ctx, request, revoked); err != nil {
					return fmt.Errorf("revoking tokens of workspace %s: %w", ws.Name, err)
				}
				for i := range revoked.Items {
					fmt.Fprintf(s.Out, "token %s revoked\n", cli.Clean(revoked.Items[i].Status.TokenID))
				}
				if len(revoked.Items) == 0 {
					fmt.Fprintf(s.Out, "Workspace %s has no tokens.\n", ws.Name)
				}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&all, "all", false, "revoke all tokens of the workspace")
	flags.BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	return cmd
}
