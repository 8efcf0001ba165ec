package plugin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/upgrade"
)

type upgradeRevertRun struct {
	*Session
	secret, key string
	yes, print  bool
}

func newUpgradeRevertCommand(s *Session) *cobra.Command {
	r := &upgradeRevertRun{Session: s}
	cmd := &cobra.Command{
		Use:   "revert [CONTROLPLANE]",
		Short: "Restore the backup of a failed upgrade into another database, with the old image",
		Long: "Takes back an upgrade that has failed after it migrated the database. In one change of the control plane it sets the old\n" +
			"image, another database, which must be empty, and the backup of the upgrade. The operator restores the backup and then\n" +
			"starts the old Coder with it. The migrated database stays as it is. What changed in Coder since the backup is lost.\n" +
			"If Argo CD, Flux or Helm manages the control plane, nothing is changed, and the change for Git is printed.\n\n" +
			"Exit codes: 0 the change was made or printed; 1 there is nothing to revert, or it failed; 2 wrong command line.",
		Example: "  kubectl coder upgrade revert -n coder --database-secret coder-db-2",
		Args:    arguments(0, 1, "revert one control plane at a time"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if r.secret == "" {
				return cli.Usage("--database-secret is missing: create an empty database, and a Secret with its URL")
			}
			return r.do(cmd.Context(), args)
		},
		ValidArgsFunction: s.CompleteName("CoderControlPlane"),
	}
	cmd.Flags().StringVar(&r.secret, "database-secret", "", "the `name` of a Secret with the URL of an empty database")
	cmd.Flags().StringVar(&r.key, "database-key", "url", "the `key` of the URL in the Secret")
	cmd.Flags().BoolVar(&r.print, "print", false, "only print the change, for Git")
	cmd.Flags().BoolVarP(&r.yes, "yes", "y", false, "do not ask for confirmation")
	return cmd
}

func (r *upgradeRevertRun) do(ctx context.Context, args []string) error {
	cluster, cp, err := r.ControlPlane(ctx, args)
	if err != nil {
		return err
	}
	if err := r.revertible(cp); err != nil {
		return err
	}
	u, backup := cp.Status.Upgrade, &coderv1alpha1.CoderBackup{}
	if err := cluster.Get(ctx, client.ObjectKey{Namespace: cp.Namespace, Name: u.Backup}, backup); err != nil {
		return fmt.Errorf("reading the backup of the upgrade: %w", err)
	}
	if backup.Status.Phase != coderv1alpha1.BackupCompleted || backup.Status.CompletedAt == nil {
		return fmt.Errorf("CoderBackup %s/%s is not complete, so there is nothing to restore", backup.Namespace, backup.Name)
	}
	lost := fmt.Sprintf("All that changed in Coder since %s is lost: users, templates, workspaces, builds and tokens.",
		backup.Status.CompletedAt.UTC().Format(time.RFC3339))
	spec := map[string]any{
		"image":     u.FromImage,
		"database":  map[string]any{"secretRef": map[string]any{"name": r.secret, "key": r.key}},
		"bootstrap": map[string]any{"fromBackup": map[string]any{"name": u.Backup}},
	}
	if manager := gitOpsManager(cp); manager != "" || r.print {
		text, err := yaml.Marshal(map[string]any{"spec": spec})
		if err != nil {
			return err
		}
		if manager != "" {
			fmt.Fprintf(r.ErrOut, "%s manages the control plane, so nothing was changed.\n", manager)
		}
		fmt.Fprintf(r.ErrOut, "%s Set these fields of %s/%s in one change, and no other database:\n", lost, cp.Namespace, cp.Name)
		_, err = r.Out.Write(text)
		return err
	}
	question := fmt.Sprintf("%s Restore CoderBackup %s into the empty database of Secret %s, and run %s with it in %s/%s?", lost, u.Backup, r.secret, u.FromImage, cp.Namespace, cp.Name)
	if err := r.Confirm(ctx, r.yes, question); err != nil {
		return err
	}
	// A merge patch removes what is null.
	spec["database"].(map[string]any)["cloudNativePG"] = nil
	spec["bootstrap"].(map[string]any)["fromBackup"].(map[string]any)["files"] = nil
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": cp.ResourceVersion}, "spec": spec})
	if err != nil {
		return err
	}
	if err := cluster.Patch(ctx, cp, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("changing control plane %s/%s: %w", cp.Namespace, cp.Name, err)
	}
	fmt.Fprintf(r.Out, "The backup is being restored. Wait for it:\n\n  kubectl -n %s wait codercontrolplane/%s --for=condition=Ready --timeout=1h\n\n"+
		"Workspaces that were created since the backup are missing, but their pods and volumes exist:\n\n  kubectl get pods -A -l com.coder.workspace.id\n", cp.Namespace, cp.Name)
	return nil
}

// revertible returns an error if a restore is not possible, or is not what takes the upgrade back.
func (r *upgradeRevertRun) revertible(cp *coderv1alpha1.CoderControlPlane) error {
	u := cp.Status.Upgrade
	switch {
	case u == nil || u.Phase != coderv1alpha1.UpgradeFailed:
		return fmt.Errorf("no upgrade of %s/%s has failed; see kubectl coder upgrade status", cp.Namespace, cp.Name)
	case !r.print && (u.SchemaAfter == 0 || u.SchemaAfter == u.SchemaBefore):
		return fmt.Errorf("the upgrade is not known to have migrated the database, so try the old image first: set spec.image to %q; that ends the upgrade, so keep what --print shows", u.FromImage)
	case u.ExternalBackup != "":
		return fmt.Errorf("another tool has made the backup of this upgrade: %s", upgrade.RestoreExternal(u))
	case u.Backup == "":
		return errors.New("there is no backup of this upgrade: correct its cause, which kubectl coder upgrade status shows, or restore another backup")
	case cp.Status.Restore != nil && cp.Status.Restore.Backup == u.Backup:
		return fmt.Errorf("CoderBackup %s was restored already, and the operator does not restore it twice; create a new control plane from it", u.Backup)
	}
	if template := cp.Spec.PodTemplate; template != nil && slices.ContainsFunc(template.Spec.Containers, func(c corev1.Container) bool { return c.Name == "coder" && c.Image != "" }) {
		return errors.New("spec.podTemplate names the image of Coder, which this command does not change; set it there, and the rest as --print shows")
	}
	if database := cp.Spec.Database; database != nil && database.SecretRef != nil &&
		database.SecretRef.Name == r.secret && cmp.Or(database.SecretRef.Key, "url") == r.key {
		return cli.Usage("Secret %s is that of the migrated database: create an empty database, and another Secret with its URL", r.secret)
	}
	return nil
}

// gitOpsManager returns the tool that would undo a change of an object, or an empty string.
func gitOpsManager(obj client.Object) string {
	for _, mark := range [][2]string{
		{"argocd.argoproj.io/tracking-id", "Argo CD"}, {"kustomize.toolkit.fluxcd.io/name", "Flux"},
		{"helm.toolkit.fluxcd.io/name", "Flux"}, {"meta.helm.sh/release-name", "Helm"},
	} {
		if obj.GetLabels()[mark[0]]+obj.GetAnnotations()[mark[0]] != "" {
			return mark[1]
		}
	}
	for _, entry := range obj.GetManagedFields() {
		switch {
		case strings.HasPrefix(entry.Manager, "argocd"):
			return "Argo CD"
		case entry.Manager == "kustomize-controller", entry.Manager == "helm-controller":
			return "Flux"
		case entry.Manager == "helm":
			return "Helm"
		}
	}
	return ""
}
