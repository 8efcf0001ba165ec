package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
)

type templatePromote struct {
	*Session
	format  cli.Format
	version string
	dryRun  bool
}

var oneTemplateName = arguments(1, 1, "give the name of one template")

func newTemplatePromoteCommand(s *Session) *cobra.Command {
	p := &templatePromote{Session: s}
	cmd := &cobra.Command{
		Use:   "promote NAME",
		Short: "Make the candidate of a template active",
		Long: "Makes the candidate of a template active: the version that was built while spec.activation is Manual or\n" +
			"AfterTest. With --version it makes another built version active. If the template changes in Coder meanwhile, nothing is\n" +
			"promoted. Workspaces keep their version until they are updated.\n" +
			"It needs the verb create of codertemplates/promote.\n\n" +
			"Exit codes: 0 promoted; 1 refused; 2 wrong command line.",
		Example: "  kubectl coder template promote hello\n  kubectl coder template promote hello --version v3 --dry-run",
		Args:    oneTemplateName,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			cluster, tmpl, err := p.Template(ctx, args[0])
			if err != nil {
				return err
			}
			id, candidate := "", tmpl.Status.Candidate
			switch {
			case p.version != "":
				if id, err = cluster.TemplateVersion(ctx, tmpl, p.version); err != nil {
					return err
				}
			case candidate == nil:
				return fmt.Errorf("template %s has no candidate: choose a version with --version, or push files while spec.activation is Manual or AfterTest", tmpl.Name)
			case candidate.ID == "":
				return fmt.Errorf("the candidate %s of template %s does not exist in Coder yet: %s", cli.Clean(candidate.Name), tmpl.Name, cli.Clean(candidate.Error))
			default:
				id = candidate.ID
			}
			return p.activate(ctx, cluster, tmpl, id, "promoted")
		},
	}
	p.addFlags(cmd)
	cmd.Flags().StringVar(&p.version, "version", "", "the name or UUID of the version; the candidate if not given")
	s.CompleteVersions(cmd, "CoderTemplate")
	return cmd
}

func newTemplateRollbackCommand(s *Session) *cobra.Command {
	p := &templatePromote{Session: s}
	cmd := &cobra.Command{
		Use:   "rollback NAME",
		Short: "Make the version active that was active before",
		Long: "Makes the version of a template active that was active before the present one, as template history shows it. A second\n" +
			"rollback undoes the first one. If the template changes in Coder meanwhile, nothing is changed. Workspaces keep their\n" +
			"version until they are updated.\n" +
			"It needs the verb create of codertemplates/promote.\n\n" +
			"Exit codes: 0 rolled back; 1 refused; 2 wrong command line.",
		Example: "  kubectl coder template rollback hello\n  kubectl coder template rollback hello --dry-run",
		Args:    oneTemplateName,
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, tmpl, err := p.Template(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			for _, a := range tmpl.Status.History {
				if a.VersionID != tmpl.Status.ActiveVersionID {
					return p.activate(cmd.Context(), cluster, tmpl, a.VersionID, "rolled back")
				}
			}
			return fmt.Errorf("the history of template %s has no version before the active one: choose a version with template promote --version", tmpl.Name)
		},
	}
	p.addFlags(cmd)
	return cmd
}

func (p *templatePromote) addFlags(cmd *cobra.Command) {
	cmd.ValidArgsFunction = p.CompleteName("CoderTemplate")
	p.format.AddFlag(cmd, cli.JSON, cli.YAML, cli.Name)
	cmd.Flags().BoolVar(&p.dryRun, "dry-run", false, "check whether the request would be accepted, and change nothing")
}

// activate makes a version active, provided that the version which the user saw is still the active one.
func (p *templatePromote) activate(ctx context.Context, c *Cluster, tmpl *aggregationv1alpha1.CoderTemplate, version, verb string) error {
	body, err := json.Marshal(&aggregationv1alpha1.CoderTemplatePromotion{
		TypeMeta:   metav1.TypeMeta{APIVersion: aggregationv1alpha1.GroupVersion.String(), Kind: "CoderTemplatePromotion"},
		ObjectMeta: metav1.ObjectMeta{UID: tmpl.UID}, VersionID: version, ActiveVersionID: tmpl.Status.ActiveVersionID,
	})
	if err != nil {
		return err
	}
	request := c.subresource(http.MethodPost, tmpl, "promote", writeParameters(p.dryRun)).SetHeader("Content-Type", "application/json").Body(body)
	changed := &aggregationv1alpha1.CoderTemplate{}
	if err := send(ctx, request, changed); err != nil {
		return fmt.Errorf("making version %s of template %s active: %w", version, tmpl.Name, err)
	}
	return writeTemplate(p.Session, p.format, changed, verb, p.dryRun)
}

func newTemplateHistoryCommand(s *Session) *cobra.Command {
	var format cli.Format
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "Show which versions of a template were active",
		Long: "Shows the active version of a template, the candidate that waits to be promoted, and the versions that were active before,\n" +
			"newest first, with the Coder user who made them active, if that is known. The API keeps the last 10.\n\n" +
			"Exit codes: 0 it is shown; 1 it is not; 2 wrong command line.",
		Example:           "  kubectl coder template history hello",
		Args:              oneTemplateName,
		ValidArgsFunction: s.CompleteName("CoderTemplate"),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, tmpl, err := s.Template(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			history, candidate := tmpl.Status.History, tmpl.Status.Candidate
			if format.Structured() {
				return format.Write(s.Out, struct {
					Candidate *aggregationv1alpha1.TemplateCandidate   `json:"candidate,omitempty"`
					History   []aggregationv1alpha1.TemplateActivation `json:"history"`
				}{candidate, history})
			}
			table := cli.Table{Header: []string{"VERSION", "STATE", "ACTIVE SINCE", "BY", "ID"}, Columns: s.ScreenColumns}
			for i, a := range history {
				state, since := "", ""
				if i == 0 {
					state = "active"
				}
				if a.Since != nil {
					since = a.Since.UTC().Format(time.RFC3339)
				}
				table.Add(cli.Text(a.VersionName), cli.Text(state), cli.Text(since), cli.Text(a.By), cli.Text(a.VersionID))
				if i == 0 && candidate != nil {
					table.Add(cli.Text(candidate.Name), cli.Text("candidate, "+candidateState(candidate)), cli.Text(""), cli.Text(""), cli.Text(candidate.ID))
				}
			}
			table.Write(s.Out, s.Paint)
			return nil
		},
	}
	format.AddFlag(cmd, cli.JSON, cli.YAML)
	return cmd
}

// candidateState returns the state of the candidate's tests, the status of its build, or why there is none.
func candidateState(c *aggregationv1alpha1.TemplateCandidate) string {
	passed := 0
	for _, t := range c.Tests {
		switch t.Phase {
		case coderv1alpha1.TemplateTestFailed:
			return "test " + t.Name + " failed"
		case coderv1alpha1.TemplateTestSucceeded:
			passed++
		}
	}
	switch {
	case len(c.Tests) > 0:
		return fmt.Sprintf("%d of %d tests succeeded", passed, len(c.Tests))
	case c.Status != "":
		return c.Status
	case c.Error != "":
		return "rejected"
	}
	return "not created yet"
}
