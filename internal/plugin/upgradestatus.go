package plugin

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/upgrade"
)

type upgradeStatusRun struct {
	*Session
	format cli.Format
}

func newUpgradeStatusCommand(s *Session) *cobra.Command {
	r := &upgradeStatusRun{Session: s}
	cmd := &cobra.Command{
		Use:   "status [CONTROLPLANE]",
		Short: "Show how far the upgrade of a control plane is, or how the last one ended",
		Long: "Shows the phase of an upgrade to another minor version of Coder, its backup, and what to do if it has failed.\n\n" +
			"Exit codes: 0 the upgrade runs or is complete, or there was none; 1 it has failed or was taken back, or the state could\n" +
			"not be read; 2 wrong command line.",
		Example:           "  kubectl coder upgrade status -n coder",
		Args:              arguments(0, 1, "show one control plane at a time"),
		RunE:              func(cmd *cobra.Command, args []string) error { return r.do(cmd.Context(), args) },
		ValidArgsFunction: s.CompleteName("CoderControlPlane"),
	}
	r.format.AddFlag(cmd, cli.JSON, cli.YAML)
	return cmd
}

func (r *upgradeStatusRun) do(ctx context.Context, args []string) error {
	cluster, cp, err := r.ControlPlane(ctx, args)
	if err != nil {
		return err
	}
	u := cp.Status.Upgrade
	switch {
	case r.format.Structured():
		err = r.format.Write(r.Out, u)
	case u == nil:
		fmt.Fprintf(r.Out, "The operator has not upgraded %s/%s to another minor version.\n", cp.Namespace, cp.Name)
	default:
		r.write(ctx, cluster, cp, u)
	}
	if err == nil && u != nil && (u.Phase == coderv1alpha1.UpgradeReverted || u.Phase == coderv1alpha1.UpgradeFailed) {
		return &cli.ExitError{Code: cli.ExitFailure}
	}
	return err
}

func (r *upgradeStatusRun) write(ctx context.Context, cluster *Cluster, cp *coderv1alpha1.CoderControlPlane, u *coderv1alpha1.UpgradeStatus) {
	table := cli.Table{}
	row := func(name, text string) { table.Add(cli.Text(name), cli.Text(text)) }
	row("Control plane", cp.Namespace+"/"+cp.Name)
	row("Upgrade", fmt.Sprintf("from %s to %s", u.FromVersion, upgrade.Reference(u.ToImage)))
	row("Phase", fmt.Sprintf("%s for %s", u.Phase, cli.Ago(r.Now(), u.PhaseStartedAt.Time)))
	took := "runs for " + cli.Ago(r.Now(), u.StartedAt.Time)
	if u.FinishedAt != nil {
		took = "took " + cli.Ago(u.FinishedAt.Time, u.StartedAt.Time)
	}
	row("Started", u.StartedAt.UTC().Format("2006-01-02 15:04:05 MST")+", "+took)
	if u.Backup != "" {
		backup, state := &coderv1alpha1.CoderBackup{}, "not created yet"
		if err := cluster.Get(ctx, client.ObjectKey{Namespace: cp.Namespace, Name: u.Backup}, backup); err == nil {
			state = string(backup.Status.Phase)
		} else if client.IgnoreNotFound(err) != nil {
			state = "could not be read: " + err.Error()
		}
		row("Backup", u.Backup+", "+state)
	}
	if u.ExternalBackup != "" && u.ExternalBackup != u.Backup {
		row("Backup", u.ExternalBackup+", made by another tool")
	}
	if u.StoppedAt != nil {
		row("Old pods stopped", u.StoppedAt.UTC().Format("2006-01-02 15:04:05 MST"))
	}
	if u.SchemaBefore != 0 {
		schema := fmt.Sprintf("%d before", u.SchemaBefore)
		if u.SchemaAfter != 0 {
			schema += fmt.Sprintf(", %d after", u.SchemaAfter)
		}
		row("Schema", schema)
	}
	if c := meta.FindStatusCondition(cp.Status.Conditions, coderv1alpha1.ConditionUpgraded); c != nil {
		row("Message", c.Message)
	}
	table.Write(r.Out, r.Paint)
}
