package plugin

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
)

// adminAccount is the account of the initial admin.
type adminAccount struct {
	ControlPlane string `json:"controlPlane"`
	URL          string `json:"url"`
	Username     string `json:"username"`
	Email        string `json:"email"`
	Password     string `json:"password,omitempty"`
}

type loginRun struct {
	openRun
	format cli.Format
	show   bool
}

func newLoginCommand(s *Session) *cobra.Command {
	l := &loginRun{openRun: openRun{Session: s}}
	cmd := &cobra.Command{
		Use:   "login [CONTROLPLANE]",
		Short: "Log in to Coder for the first time",
		Long: "Finds the account of the initial admin, copies its password to the clipboard and opens Coder's login in the browser\n" +
			"as kubectl coder open does. On a machine without a clipboard or a browser it prints the address, and the command that\n" +
			"prints the password. With --show-password it prints the account with its password, and opens nothing.\n" +
			"The account is in the Secret CONTROLPLANE-initial-admin, which you must be allowed to read.",
		Example:           "  kubectl coder login -n coder\n  kubectl coder login -n coder --show-password",
		Args:              arguments(0, 1, "log in to one control plane at a time"),
		RunE:              func(cmd *cobra.Command, args []string) error { return l.do(cmd.Context(), args) },
		ValidArgsFunction: s.CompleteName("CoderControlPlane"),
	}
	l.addFlags(cmd)
	l.format.AddFlag(cmd, cli.JSON, cli.YAML)
	cmd.Flags().BoolVar(&l.show, "show-password", false, "print the account with its password, and open nothing")
	return cmd
}

func (l *loginRun) do(ctx context.Context, args []string) error {
	if err := l.validate(); err != nil {
		return err
	}
	if l.format.Structured() && !l.show {
		return cli.Usage("-o %s prints the account, password included: add --show-password if you want that", l.format)
	}
	cluster, cp, err := l.ControlPlane(ctx, args)
	if err != nil {
		return err
	}
	if cp.Spec.InitialAdmin.Disabled {
		return fmt.Errorf("control plane %s/%s has no initial admin: spec.initialAdmin.disabled is true", cp.Namespace, cp.Name)
	}
	name := coderv1alpha1.InitialAdminSecretName(cp.Name)
	secret := &corev1.Secret{}
	err = cluster.Get(ctx, client.ObjectKey{Namespace: cp.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("there is no Secret %s/%s: it was deleted after the first login, Coder had users before the operator was installed, "+
			"or Coder is not ready yet (kubectl coder status -n %s)", cp.Namespace, name, cp.Namespace)
	}
	if err != nil {
		return fmt.Errorf("reading the account of the initial admin: %w", err)
	}
	found := adminAccount{
		ControlPlane: cp.Namespace + "/" + cp.Name, URL: cmp.Or(cp.Status.AccessURL, cp.Status.URL),
		Username: string(secret.Data[coderv1alpha1.SecretKeyUsername]), Email: string(secret.Data[coderv1alpha1.SecretKeyEmail]),
		Password: string(secret.Data[coderv1alpha1.SecretKeyPassword]),
	}
	if found.Email == "" || found.Password == "" {
		return fmt.Errorf("the Secret %s/%s lacks the key email or password", cp.Namespace, name)
	}
	if l.show && l.format.Structured() {
		return l.format.Write(l.Out, found)
	}
	if l.show {
		where, address := "URL", publicURL(ctx, cluster, cp)
		if address == "" {
			// The other addresses are only reachable inside the cluster.
			where, address = "Open with", fmt.Sprintf("kubectl coder open -n %s controlplane/%s", cp.Namespace, cp.Name)
		}
		table := &cli.Table{}
		for _, row := range [][2]string{{where, address}, {"Username", found.Username}, {"Email", found.Email}, {"Password", found.Password}} {
			table.Add(cli.Text(row[0]).In(cli.Faint), cli.Text(row[1]))
		}
		table.Write(l.Out, l.Paint)
		return nil
	}
	password := "The password is on the clipboard."
	if err := l.Copy(ctx, found.Password); err != nil {
		password = fmt.Sprintf("The password could not be copied: %v. This prints it:\n  kubectl coder login -n %s %s --show-password", err, cp.Namespace, cp.Name)
	}
	fmt.Fprintf(l.ErrOut, "Log in as %s. %s\n", cli.Clean(found.Email), cli.Visible(password))
	return l.enter(ctx, cluster, cp, "/login")
}
