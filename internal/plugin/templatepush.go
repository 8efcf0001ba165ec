package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
)

// fieldManager is the field manager of the changes to a template.
const fieldManager = "kubectl-coder"

type templatePush struct {
	*Session
	cluster              *Cluster
	format               cli.Format
	create, dryRun, wait bool
	timeout              time.Duration
	versionName, message string
	assignments          []string
	variables            map[string]string

	files  templateFiles
	inline map[string]string
	// allText reports that inline contains all of files.
	allText bool
}

func newTemplatePushCommand(s *Session) *cobra.Command {
	p := &templatePush{Session: s}
	cmd := &cobra.Command{
		Use:   "push NAME {DIR | FILE}",
		Short: "Create a new version of a template from a directory",
		Long: "Creates a new version of the template from the files of a directory, from one .tf file, or from a .tar archive. It\n" +
			"becomes active when its build has succeeded; until then, or if the build fails, the previous version stays active. If\n" +
			"spec.activation of the template is Manual, it becomes active only with template promote.\n" +
			"Files that are not in the directory are removed from the template. Not pushed are .git, .terraform, *.tfstate and\n" +
			"*.tfplan. Variables that are not named keep their values; set secret values in spec.variables of a manifest with\nvalueFrom.\n\n" +
			"Exit codes: 0 pushed, or nothing to push; 1 refused, or with --wait not built; 2 wrong command line.",
		Example: "  kubectl coder template push hello ./hello --wait\n  kubectl coder template push coder.hello main.tf --create --dry-run\n" +
			"  kubectl coder template push kubernetes examples/templates/kubernetes --create --wait --variable image=example.com/dev:1",
		Args:              arguments(2, 2, "give the name of the template, and the directory or file with its source"),
		RunE:              func(cmd *cobra.Command, args []string) error { return p.do(cmd.Context(), args[0], args[1]) },
		ValidArgsFunction: completeNameAndPath(s),
	}
	p.format.AddFlag(cmd, cli.JSON, cli.YAML, cli.Name)
	flags := cmd.Flags()
	flags.BoolVar(&p.create, "create", false, "create the template if it does not exist; NAME must then be the complete name")
	flags.BoolVar(&p.dryRun, "dry-run", false, "check whether the request would be accepted, and change nothing")
	flags.BoolVar(&p.wait, "wait", false, "wait until the version is active, or built if spec.activation is Manual, and show the end of its log if it fails")
	flags.DurationVar(&p.timeout, "timeout", 15*time.Minute, "maximum time to wait with --wait; 0 for no limit")
	flags.StringVar(&p.versionName, "version-name", "", "the name of the version; derived from the hash of the files if not given")
	flags.StringVar(&p.message, "message", "", "a description of the version")
	// A map of pflag would split values at commas and remove quotes.
	flags.StringArrayVar(&p.assignments, "variable", nil, "the value of a Terraform variable, as `NAME=VALUE` (repeatable)")
	return cmd
}

func (p *templatePush) do(ctx context.Context, text, from string) error {
	target, err := ParseTarget(text, "CoderTemplate")
	if err != nil {
		return err
	}
	p.variables = map[string]string{}
	for _, assignment := range p.assignments {
		name, value, found := strings.Cut(assignment, "=")
		if !found || name == "" {
			return cli.Usage("--variable %q is not NAME=VALUE", assignment)
		}
		p.variables[name] = value
	}
	if p.files, err = readTemplateFiles(from); err != nil {
		return err
	}
	p.inline, p.allText = p.files.inline()
	if p.cluster, err = p.Cluster(); err != nil {
		return err
	}
	p.cluster.Client = client.WithFieldOwner(p.cluster.Client, fieldManager)
	if p.dryRun {
		p.cluster.Client = client.NewDryRunClient(p.cluster.Client)
	}
	tmpl, err := p.cluster.Template(ctx, target.Name)
	var verb string
	switch {
	case apierrors.IsNotFound(err) && p.create && !p.allText:
		err = cli.Usage("a new template can only be created from text files of at most %d MiB: create it with these, and push the other files afterwards", maxInlineBytes>>20)
	case apierrors.IsNotFound(err) && p.create:
		verb, tmpl = "created", &aggregationv1alpha1.CoderTemplate{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.cluster.Namespace, Name: target.Name},
			Spec:       aggregationv1alpha1.CoderTemplateSpec{Files: p.inline, VersionName: p.versionName, VersionMessage: p.message, Variables: p.withVariables(nil)},
		}
		err = p.cluster.Create(ctx, tmpl)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w; add --create to create it", err)
	case err == nil:
		verb, err = p.update(ctx, tmpl)
	}
	if err != nil {
		return fmt.Errorf("pushing template %s: %w", target.Name, err)
	}
	var failed error
	if p.wait && !p.dryRun {
		// An unchanged template may still have a version whose build failed.
		tmpl, failed = p.await(ctx, tmpl)
	}
	return errors.Join(writeTemplate(p.Session, p.format, tmpl, verb, p.dryRun), failed)
}

// update sets the template's files if they differ, and returns a verb for the output.
func (p *templatePush) update(ctx context.Context, tmpl *aggregationv1alpha1.CoderTemplate) (verb string, err error) {
	shown := tmpl.Status.Source != nil && tmpl.Status.Source.Inline
	if !shown {
		// spec.files does not contain all files, so the archive is compared.
		had, err := downloadTemplate(ctx, p.cluster, tmpl, "")
		if err != nil {
			return "", err
		}
		if p.files.equal(had) && p.versionName == "" && len(p.variables) == 0 {
			return "unchanged", nil
		}
	} else if p.allText && maps.Equal(p.inline, tmpl.Spec.Files) && p.versionName == "" &&
		slices.Equal(p.withVariables(tmpl.Spec.Variables), tmpl.Spec.Variables) {
		return "unchanged", nil
	}
	if p.allText && shown {
		return "pushed", p.updateSpec(ctx, tmpl)
	}
	if p.versionName != "" || p.message != "" || len(p.variables) > 0 {
		reason := "with files that are not text, or with more than %d MiB"
		if p.allText {
			reason = "while spec.files cannot show the present source of the template, which may have files that are not text, or more than %d MiB: " +
				"push the files without these flags first"
		}
		return "", cli.Usage("--version-name, --message and --variable cannot be used "+reason, maxInlineBytes>>20)
	}
	archive, err := p.files.archive()
	if err != nil {
		return "", err
	}
	upload := p.cluster.subresource(http.MethodPut, tmpl, "files", writeParameters(p.dryRun)).SetHeader("Content-Type", "application/x-tar").Body(archive)
	return "pushed", send(ctx, upload, tmpl)
}

// writeParameters returns the query parameters of a write to a subresource.
func writeParameters(dryRun bool) map[string]string {
	parameters := map[string]string{"fieldManager": fieldManager}
	if dryRun {
		parameters["dryRun"] = metav1.DryRunAll
	}
	return parameters
}

// updateSpec sets spec.files. A version name can be used only once, so an earlier name is removed.
func (p *templatePush) updateSpec(ctx context.Context, tmpl *aggregationv1alpha1.CoderTemplate) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		tmpl.Spec.Files, tmpl.Spec.VersionName, tmpl.Spec.VersionMessage = p.inline, p.versionName, p.message
		tmpl.Spec.Variables = p.withVariables(tmpl.Spec.Variables)
		err := p.cluster.Update(ctx, tmpl)
		if apierrors.IsConflict(err) {
			if gone := p.cluster.Get(ctx, client.ObjectKeyFromObject(tmpl), tmpl); gone != nil {
				return gone
			}
		}
		return err
	})
}

// withVariables returns the variables with the values of the flags. New variables are appended,
// sorted by name.
func (p *templatePush) withVariables(had []aggregationv1alpha1.TemplateVariable) []aggregationv1alpha1.TemplateVariable {
	variables := slices.Clone(had)
	for _, name := range slices.Sorted(maps.Keys(p.variables)) {
		given := aggregationv1alpha1.TemplateVariable{Name: name, Value: p.variables[name]}
		at := slices.IndexFunc(variables, func(v aggregationv1alpha1.TemplateVariable) bool { return v.Name == name })
		if at < 0 {
			variables = append(variables, given)
		} else {
			variables[at] = given
		}
	}
	return variables
}

// writeTemplate prints a template in a format, or what was done with it.
func writeTemplate(s *Session, format cli.Format, tmpl *aggregationv1alpha1.CoderTemplate, verb string, dryRun bool) error {
	name := "codertemplate.aggregation.coder.com/" + tmpl.Name
	switch {
	case format.Structured():
		tmpl.SetGroupVersionKind(aggregationv1alpha1.GroupVersion.WithKind("CoderTemplate"))
		return format.Write(s.Out, tmpl)
	case format == cli.Name:
	case dryRun:
		name += " " + verb + " (server dry run)"
	default:
		name += " " + verb
	}
	_, err := fmt.Fprintln(s.Out, name)
	return err
}

// shownLogLines is the number of log lines that are shown of a failed build.
const shownLogLines = 20

// await waits until the pushed version is active, or its build or a test has failed. It ignores responses of
// a replica that has not processed the push yet.
func (p *templatePush) await(ctx context.Context, tmpl *aggregationv1alpha1.CoderTemplate) (*aggregationv1alpha1.CoderTemplate, error) {
	progress := p.Progress()
	defer progress.End()
	pushed := tmpl.Generation
	err := p.poll(ctx, p.timeout, "the build continues without this command", func() (done bool, err error) {
		now := &aggregationv1alpha1.CoderTemplate{}
		if err := p.cluster.Get(ctx, client.ObjectKeyFromObject(tmpl), now); err == nil {
			tmpl = now
		} else if !IsTemporary(err) {
			return false, fmt.Errorf("reading template %s: %w", tmpl.Name, err)
		}
		ready := meta.FindStatusCondition(tmpl.Status.Conditions, aggregationv1alpha1.ConditionReady)
		if ready == nil || tmpl.Generation < pushed || tmpl.Status.ObservedGeneration < tmpl.Generation {
			return false, nil
		}
		progress.Report(p.Now(), 0, 1, tmpl.Name, ready.Message)
		if failed := stalled(tmpl.Status.Conditions); failed != nil && ready.Status != metav1.ConditionTrue {
			progress.End()
			if ready.Reason != aggregationv1alpha1.ReasonTestsFailed {
				p.showLog(ctx, tmpl)
			}
			return false, fmt.Errorf("template %s: %s", tmpl.Name, cli.Clean(failed.Message))
		}
		if ready.Reason == aggregationv1alpha1.ReasonDeleting {
			return false, fmt.Errorf("template %s: %s", tmpl.Name, cli.Clean(ready.Message))
		}
		return ready.Status == metav1.ConditionTrue, nil
	}, func() error {
		return fmt.Errorf("the new version of template %[2]s is not active after %[1]s; its build continues without this command", p.timeout, tmpl.Name)
	})
	return tmpl, err
}

// showLog prints the end of the failed version's log, if it can be read.
func (p *templatePush) showLog(ctx context.Context, tmpl *aggregationv1alpha1.CoderTemplate) {
	version := ""
	if tmpl.Status.Source != nil {
		version = tmpl.Status.Source.VersionID
	}
	stream, err := p.cluster.subresource(http.MethodGet, tmpl, "log", map[string]string{"version": version}).Stream(ctx)
	if err != nil {
		return
	}
	defer func() { _ = stream.Close() }()
	text, err := io.ReadAll(stream)
	if err != nil {
		return
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	for _, line := range lines[max(0, len(lines)-shownLogLines):] {
		fmt.Fprintln(p.ErrOut, cli.Clean(line))
	}
}
