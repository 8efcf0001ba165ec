package plugin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/upgrade"
)

func newUpgradeCommand(s *Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "See what another version of Coder would do to a control plane, and how far an upgrade is",
		Long:  "Shows what a change of the image of a control plane would do, and how far it is. The change itself is one of spec.image, in Git or with kubectl. revert takes a failed upgrade back.",
		Args:  cobra.ArbitraryArgs,
		RunE:  helpOrUnknown(nil),
	}
	cmd.AddCommand(newUpgradePlanCommand(s), newUpgradeStatusCommand(s), newUpgradeRevertCommand(s))
	return cmd
}

type upgradePlanRun struct {
	*Session
	format cli.Format
	to     string
}

// upgradePlan is the output of -o json.
type upgradePlan struct {
	ControlPlane string `json:"controlPlane"`
	// Running is the version of the Coder that answered last. It is empty if none ever did.
	Running string `json:"running,omitempty"`
	Image   string `json:"image,omitempty"`
	Wanted  string `json:"wantedImage"`
	// Allowed reports whether the operator would give the image to the pods. Message says why not.
	Allowed bool            `json:"allowed"`
	Message string          `json:"message,omitempty"`
	Checks  []upgrade.Check `json:"checks"`
	// Pods describes the order in which pods stop and start, and which sessions end.
	Pods string `json:"pods"`
}

func newUpgradePlanCommand(s *Session) *cobra.Command {
	r := &upgradePlanRun{Session: s}
	cmd := &cobra.Command{
		Use:   "plan [CONTROLPLANE]",
		Short: "Show whether the operator would accept an image, and what it would do",
		Long: "Shows the version of Coder that runs, the checks of another image, the order in which pods would stop and start, and\n" +
			"whether sessions would end. It changes nothing. The operator makes the same decision when spec.image changes.\n\n" +
			"Exit codes: 0 the image would be accepted; 1 it would be refused, or the state could not be read; 2 wrong command line.",
		Example:           "  kubectl coder upgrade plan -n coder --to 2.36.1\n  kubectl coder upgrade plan coder --to registry.example.com/coder:v2.36.1 -o json",
		Args:              arguments(0, 1, "plan for one control plane at a time"),
		RunE:              func(cmd *cobra.Command, args []string) error { return r.do(cmd.Context(), args) },
		ValidArgsFunction: s.CompleteName("CoderControlPlane"),
	}
	r.format.AddFlag(cmd, cli.JSON, cli.YAML)
	cmd.Flags().StringVar(&r.to, "to", "", "the `version or image` to plan for; the image of the spec by default")
	return cmd
}

func (r *upgradePlanRun) do(ctx context.Context, args []string) error {
	cluster, cp, err := r.ControlPlane(ctx, args)
	if err != nil {
		return err
	}
	facts := upgrade.FactsOf(cp)
	if r.to != "" {
		facts.Wanted = upgrade.ImageOf(r.to, cmp.Or(facts.Image, facts.Wanted))
	}
	planes := &coderv1alpha1.CoderControlPlaneList{}
	listErr := cluster.List(ctx, planes, client.InNamespace(cp.Namespace))
	facts.Overlapping = upgrade.Overlapping(upgrade.Sharing(cp, planes.Items))
	decision := upgrade.Decide(facts)
	supported := upgrade.Check{Name: "VersionSupported", Result: upgrade.Warning}
	status, _, message := upgrade.Supported(upgrade.Reference(facts.Wanted))
	if supported.Message = message; status == metav1.ConditionTrue {
		supported.Result = upgrade.Passed
	}
	plan := upgradePlan{
		ControlPlane: cp.Namespace + "/" + cp.Name, Running: facts.Running, Image: facts.Image, Wanted: facts.Wanted,
		Allowed: decision.Reason == "", Message: decision.Message, Pods: orderOfPods(cp, facts, decision),
		Checks: append(slices.Clone(decision.Checks), supported, readyNow(cp), noBuilds(ctx, cluster, cp), noNewerProvisioners(ctx, cluster, cp, facts.Wanted)),
	}
	quotas := slices.IndexFunc(plan.Checks, func(check upgrade.Check) bool { return check.Name == upgrade.CheckQuotas })
	if listErr != nil && quotas >= 0 {
		plan.Checks[quotas] = upgrade.Check{Name: upgrade.CheckQuotas, Result: upgrade.Warning, Message: "control planes with the same database could not be looked for: " + listErr.Error()}
	}
	if decision.Phases {
		backup, schedule := backupBefore(ctx, cluster, cp, facts.Wanted)
		checks := []upgrade.Check{backup}
		if schedule != nil {
			// With the rights of the user, which may be others than those of the operator.
			check, err := upgrade.TryDestination(ctx, cluster, schedule)
			if apierrors.IsForbidden(err) {
				check = upgrade.Check{Name: upgrade.CheckDestination, Result: upgrade.Warning, Message: "the operator checks it before a pod stops; it could not be checked here: " + err.Error()}
			}
			checks = append(checks, check)
		}
		for _, check := range append(checks, newServer(ctx, cluster, cp, facts)) {
			plan.Checks = append(plan.Checks, check)
			if check.Result == upgrade.Failed {
				plan.Allowed, plan.Message = false, check.Message
			}
		}
	}
	if r.format.Structured() {
		err = r.format.Write(r.Out, plan)
	} else {
		r.write(&plan)
	}
	if err == nil && !plan.Allowed {
		return &cli.ExitError{Code: cli.ExitFailure}
	}
	return err
}

func (r *upgradePlanRun) write(plan *upgradePlan) {
	head := cli.Table{}
	head.Add(cli.Text("Control plane"), cli.Text(plan.ControlPlane))
	head.Add(cli.Text("Running"), cli.Text(strings.TrimSpace(plan.Running+" "+plan.Image)))
	head.Add(cli.Text("Wanted"), cli.Text(plan.Wanted))
	head.Add(cli.Text("Pods"), cli.Text(plan.Pods))
	head.Write(r.Out, r.Paint)
	fmt.Fprintln(r.Out)
	checks := cli.Table{Header: []string{"CHECK", "RESULT", "MESSAGE"}, Columns: r.ScreenColumns}
	colours := map[upgrade.Result]cli.Colour{upgrade.Passed: cli.Green, upgrade.Failed: cli.Red, upgrade.Overridden: cli.Yellow, upgrade.Warning: cli.Yellow}
	for _, check := range plan.Checks {
		checks.Add(cli.Text(check.Name), cli.Text(string(check.Result)).In(colours[check.Result]), cli.Text(check.Message))
	}
	checks.Write(r.Out, r.Paint)
	if !plan.Allowed {
		fmt.Fprintf(r.Out, "\nThe operator would refuse it: %s.\n", cli.Clean(plan.Message))
	}
}

// orderOfPods describes how pods are replaced, if the image is accepted.
func orderOfPods(cp *coderv1alpha1.CoderControlPlane, facts upgrade.Facts, decision upgrade.Decision) string {
	const ends = "; sessions to workspaces through a pod that stops end, and the workspaces keep running"
	strategy := cp.Spec.Deployment.Strategy
	switch {
	case facts.Image == "":
		return "nothing runs yet"
	case facts.Image == facts.Wanted:
		return "nothing changes"
	case decision.Phases:
		back := "the old image comes back if the new one does not work and has not migrated the database"
		if upgrade.PolicyOf(cp).OnFailure == coderv1alpha1.UpgradeHold {
			back = "the new image stays if it does not work"
		}
		return "all old pods stop, then one new pod migrates the database, then the others start; Coder does not respond meanwhile; " + back + ends
	case decision.StopFirst:
		return "all old pods stop before the new ones start, so Coder does not respond meanwhile" + ends
	case strategy != nil && strategy.Type == "Recreate":
		return "all old pods stop before the new ones start, because of spec.deployment.strategy" + ends
	}
	return "each new pod starts before an old one stops" + ends
}

// backupBefore says whether the upgrade makes a backup, and returns the schedule whose template it has. A failed check means that
// it does not begin.
func backupBefore(ctx context.Context, c *Cluster, cp *coderv1alpha1.CoderControlPlane, wanted string) (upgrade.Check, *coderv1alpha1.CoderBackupSchedule) {
	const name = "Backup"
	policy := upgrade.PolicyOf(cp).Backup
	switch policy {
	case coderv1alpha1.UpgradeBackupNever:
		return upgrade.Check{Name: name, Result: upgrade.Warning, Message: "spec.upgrade.backup is Never, so no backup is made"}, nil
	case coderv1alpha1.UpgradeBackupExternal:
		backup, missing := upgrade.ExternalBackup(cp, wanted)
		if backup == "" {
			return upgrade.Check{Name: name, Result: upgrade.Warning, Message: "spec.upgrade.backup is External, so the old pods serve until a backup is named: " + missing}, nil
		}
		return upgrade.Check{Name: name, Result: upgrade.Passed, Message: fmt.Sprintf("the annotation names the backup %q of another tool, which the operator cannot check", backup)}, nil
	}
	list := &coderv1alpha1.CoderBackupScheduleList{}
	if err := c.List(ctx, list, client.InNamespace(cp.Namespace)); err != nil {
		return upgrade.Check{Name: name, Result: upgrade.Warning, Message: "the backup schedules could not be read: " + err.Error()}, nil
	}
	schedule := upgrade.ScheduleOf(cp.Name, list.Items)
	switch {
	case schedule == nil && policy == coderv1alpha1.UpgradeBackupRequired:
		return upgrade.Check{Name: name, Result: upgrade.Failed, Message: "spec.upgrade.backup is Required, and no CoderBackupSchedule names the control plane; create one, which may be suspended"}, nil
	case schedule == nil:
		return upgrade.Check{Name: name, Result: upgrade.Warning, Message: "no backup is made, because no CoderBackupSchedule names the control plane; create one, which may be suspended"}, nil
	}
	message := fmt.Sprintf("a CoderBackup is made while Coder is stopped, like those of CoderBackupSchedule %s", schedule.Name)
	if last := schedule.Status.LastSuccessTime; last == nil {
		return upgrade.Check{Name: name, Result: upgrade.Warning, Message: message + ", which has made none yet; if it fails, the old Coder starts again"}, schedule
	}
	return upgrade.Check{Name: name, Result: upgrade.Passed, Message: fmt.Sprintf("%s; the last of them is %s", message, schedule.Status.LastSuccessfulBackup)}, schedule
}

// newServer checks the version of PostgreSQL that the newest backup of the control plane reports.
func newServer(ctx context.Context, c *Cluster, cp *coderv1alpha1.CoderControlPlane, facts upgrade.Facts) upgrade.Check {
	list, newest := &coderv1alpha1.CoderBackupList{}, &coderv1alpha1.CoderBackup{}
	if err := c.List(ctx, list, client.InNamespace(cp.Namespace)); err != nil {
		return upgrade.Check{Name: upgrade.CheckPostgreSQL, Result: upgrade.Warning, Message: "the backups could not be read: " + err.Error()}
	}
	for i := range list.Items {
		backup := &list.Items[i]
		if backup.Spec.ControlPlaneRef.Name == cp.Name && backup.Status.PostgresVersion != "" && (newest.Name == "" || newest.Status.CompletedAt.Before(backup.Status.CompletedAt)) {
			newest = backup
		}
	}
	major, source := int64(0), "the operator reads it before a pod stops"
	if newest.Name != "" {
		// For example "15.4" or "18beta1".
		_, _ = fmt.Sscanf(newest.Status.PostgresVersion, "%d", &major)
		source = "CoderBackup " + newest.Name + " reports it"
	}
	check := upgrade.PostgreSQL(facts, major)
	if check.Result == upgrade.Failed {
		source += "; if the server was replaced since, make another backup, or begin the upgrade: the operator reads the version again"
	}
	check.Message += "; " + source
	return check
}

func readyNow(cp *coderv1alpha1.CoderControlPlane) upgrade.Check {
	const name = "ControlPlaneReady"
	ready := meta.FindStatusCondition(cp.Status.Conditions, coderv1alpha1.ConditionReady)
	switch {
	case ready == nil:
		return upgrade.Check{Name: name, Result: upgrade.Warning, Message: "the operator has not reconciled the control plane yet"}
	case ready.Status != "True":
		return upgrade.Check{Name: name, Result: upgrade.Warning, Message: ready.Reason + ": " + ready.Message}
	}
	return upgrade.Check{Name: name, Result: upgrade.Passed, Message: ready.Message}
}

// noBuilds looks for builds that an upgrade would delay, if they run in external provisioners, or else interrupt.
func noBuilds(ctx context.Context, c *Cluster, cp *coderv1alpha1.CoderControlPlane) upgrade.Check {
	const name = "NoRunningBuilds"
	list := &aggregationv1alpha1.CoderWorkspaceList{}
	if err := c.List(ctx, list, client.InNamespace(cp.Namespace), client.MatchingLabels{aggregationv1alpha1.LabelControlPlaneName: cp.Name}); err != nil {
		return upgrade.Check{Name: name, Result: upgrade.Warning, Message: "the workspaces could not be read: " + err.Error()}
	}
	var building []string
	for i := range list.Items {
		if slices.Contains([]string{"Pending", "Starting", "Stopping", "Canceling", "Deleting"}, list.Items[i].Status.Phase) {
			building = append(building, list.Items[i].Name)
		}
	}
	if n := len(building); n > 0 {
		return upgrade.Check{Name: name, Result: upgrade.Warning, Message: fmt.Sprintf("%d of %d workspaces are being built, for example %s; external provisioners finish their builds before Coder stops, in their termination grace period, and coderd's own end with its pod",
			n, len(list.Items), building[0])}
	}
	return upgrade.Check{Name: name, Result: upgrade.Passed, Message: fmt.Sprintf("none of %d workspaces is being built", len(list.Items))}
}

// noNewerProvisioners looks for provisioners with an image of their own that the new Coder would refuse.
func noNewerProvisioners(ctx context.Context, c *Cluster, cp *coderv1alpha1.CoderControlPlane, wanted string) upgrade.Check {
	const name = "ProvisionerSkew"
	list := &coderv1alpha1.CoderProvisionerList{}
	if err := c.List(ctx, list, client.InNamespace(cp.Namespace)); err != nil {
		return upgrade.Check{Name: name, Result: upgrade.Warning, Message: "the provisioners could not be read: " + err.Error()}
	}
	for i := range list.Items {
		p := &list.Items[i]
		if ref := p.Spec.ControlPlaneRef; ref != nil && ref.Name == cp.Name && p.Spec.Image != "" &&
			upgrade.Older(upgrade.Reference(wanted), upgrade.Reference(p.Spec.Image)) {
			return upgrade.Check{Name: name, Result: upgrade.Warning, Message: fmt.Sprintf(
				"CoderProvisioner %s has the newer image %s, and Coder refuses newer provisioners", p.Name, p.Spec.Image)}
		}
	}
	return upgrade.Check{Name: name, Result: upgrade.Passed, Message: "no CoderProvisioner has a newer image; those without an image follow the control plane"}
}

func newUpgradeStatusCommand(s *Session) *cobra.Command {
	var format cli.Format
	cmd := &cobra.Command{
		Use:   "status [CONTROLPLANE]",
		Short: "Show how far the upgrade of a control plane is, or how the last one ended",
		Long: "Shows the phase of an upgrade to another minor version of Coder, its backup, and what to do if it has failed.\n\n" +
			"Exit codes: 0 the upgrade runs or is complete, or there was none; 1 it has failed or was taken back, or the state could\n" +
			"not be read; 2 wrong command line.",
		Example:           "  kubectl coder upgrade status -n coder",
		Args:              arguments(0, 1, "show one control plane at a time"),
		ValidArgsFunction: s.CompleteName("CoderControlPlane"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, cp, err := s.ControlPlane(cmd.Context(), args)
			if err != nil {
				return err
			}
			u := cp.Status.Upgrade
			switch {
			case format.Structured():
				err = format.Write(s.Out, u)
			case u == nil:
				fmt.Fprintf(s.Out, "The operator has not upgraded %s/%s to another minor version.\n", cp.Namespace, cp.Name)
			default:
				writeUpgradeStatus(cmd.Context(), s, cluster, cp, u)
			}
			if err == nil && u != nil && (u.Phase == coderv1alpha1.UpgradeReverted || u.Phase == coderv1alpha1.UpgradeFailed) {
				return &cli.ExitError{Code: cli.ExitFailure}
			}
			return err
		},
	}
	format.AddFlag(cmd, cli.JSON, cli.YAML)
	return cmd
}

func writeUpgradeStatus(ctx context.Context, s *Session, cluster *Cluster, cp *coderv1alpha1.CoderControlPlane, u *coderv1alpha1.UpgradeStatus) {
	table := cli.Table{}
	row := func(name, text string) { table.Add(cli.Text(name), cli.Text(text)) }
	row("Control plane", cp.Namespace+"/"+cp.Name)
	row("Upgrade", fmt.Sprintf("from %s to %s", u.FromVersion, upgrade.Reference(u.ToImage)))
	row("Phase", fmt.Sprintf("%s for %s", u.Phase, cli.Ago(s.Now(), u.PhaseStartedAt.Time)))
	took := "runs for " + cli.Ago(s.Now(), u.StartedAt.Time)
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
	table.Write(s.Out, s.Paint)
}
