package plugin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/cli"
)

type logsRun struct {
	*Session
	cluster *Cluster

	follow, scripts            bool
	build                      int32
	version, agentName, script string
	tail                       int64
}

func newLogsCommand(s *Session) *cobra.Command {
	r := &logsRun{Session: s}
	cmd := &cobra.Command{
		Use:   "logs {WORKSPACE | template/TEMPLATE}",
		Short: "Print the log of a build, or of the scripts of an agent",
		Long: "Prints the log of the newest build of a workspace, of the newest version of a template, or with --scripts what the\n" +
			"scripts of the workspace's agent wrote, for example its startup script.\n\n" +
			"For the logs of pods use kubectl logs: deploy/NAME for a control plane, and --tail=-1 -l com.coder.workspace.id=ID for\n" +
			"a workspace, whose ID is in status.id. Its pods may be in another namespace: see spec.rbac of the control plane.",
		Example: "  kubectl coder logs coder.ada.dev -f\n  kubectl coder logs dev --build 3\n" +
			"  kubectl coder logs template/hello\n  kubectl coder logs dev --scripts -f",
		Args:              arguments(1, 1, "give the name of one workspace or template/NAME"),
		RunE:              func(cmd *cobra.Command, args []string) error { return r.do(cmd, args[0]) },
		ValidArgsFunction: s.CompleteName("CoderWorkspace", "CoderTemplate"),
	}
	flags := cmd.Flags()
	flags.BoolVarP(&r.follow, "follow", "f", false, "follow the log until the build has finished")
	flags.Int64Var(&r.tail, "tail", -1, "number of lines from the end; -1 for all")
	flags.Int32Var(&r.build, "build", 0, "of a workspace: the number of the build; 0 is the newest")
	flags.StringVar(&r.version, "version", "", "of a template: the name or UUID of the version; the newest one if not given")
	flags.BoolVar(&r.scripts, "scripts", false, "of a workspace: what the scripts of its agent wrote since the newest build")
	flags.StringVar(&r.agentName, "agent-name", "", "with --scripts: the agent; needed if the workspace has several")
	flags.StringVar(&r.script, "script", "", "with --scripts: only this script, for example \"Startup Script\"")
	r.CompleteAgents(cmd, "agent-name", (*Cluster).Workspace)
	r.CompleteVersions(cmd, "CoderWorkspace", "CoderTemplate")
	r.CompleteFlagOf(cmd, "build", func(ctx context.Context, c *Cluster, target Target) []string {
		ws, err := c.Workspace(ctx, target.Name)
		if err != nil {
			return nil
		}
		// The newest ones suffice.
		const most = 20
		var numbers []string
		for n := int(buildNumber(ws)); n > 0 && len(numbers) < most; n-- {
			numbers = append(numbers, strconv.Itoa(n))
		}
		return numbers
	}, "CoderWorkspace")
	return cmd
}

func (r *logsRun) do(cmd *cobra.Command, text string) error {
	target, err := ParseTarget(text, "CoderWorkspace", "CoderTemplate")
	if err != nil {
		return err
	}
	for flag, counts := range map[string]bool{
		"build": target.Kind == "CoderWorkspace" && !r.scripts, "scripts": target.Kind == "CoderWorkspace",
		"agent-name": r.scripts, "script": r.scripts, "version": target.Kind == "CoderTemplate",
	} {
		if cmd.Flags().Changed(flag) && !counts {
			return cli.Usage("--%s does not apply here: see --help", flag)
		}
	}
	if r.tail < -1 {
		return cli.Usage("--tail is %d, and must be a number of lines, or -1 for all", r.tail)
	}
	if r.cluster, err = r.Cluster(); err != nil {
		return err
	}
	ctx := cmd.Context()
	if target.Kind == "CoderTemplate" {
		tmpl, err := r.cluster.Template(ctx, target.Name)
		if err != nil {
			return err
		}
		parameters := map[string]string{}
		if r.version != "" {
			if parameters["version"], err = r.cluster.TemplateVersion(ctx, tmpl, r.version); err != nil {
				return err
			}
		}
		return r.print(ctx, tmpl, parameters)
	}
	ws, err := r.cluster.Workspace(ctx, target.Name)
	if err != nil {
		return err
	}
	parameters := map[string]string{"agent": r.agentName, "script": r.script}
	if r.build != 0 {
		parameters["build"] = strconv.Itoa(int(r.build))
	}
	if r.scripts {
		parameters["source"] = "agent"
	}
	return r.print(ctx, ws, parameters)
}

// print writes the log in Coder of a workspace or template, or its last lines. With --follow and
// --tail it first counts the existing lines.
func (r *logsRun) print(ctx context.Context, of client.Object, parameters map[string]string) error {
	skip := 0
	if r.tail >= 0 {
		lines := 0
		if err := r.each(ctx, of, parameters, func(string) error { lines++; return nil }); err != nil {
			return err
		}
		skip = max(0, lines-int(r.tail))
	}
	if r.follow {
		parameters["follow"] = "true"
	}
	return r.each(ctx, of, parameters, func(line string) error {
		if skip--; skip >= 0 {
			return nil
		}
		if r.Screen {
			line = cli.Visible(line)
		}
		_, err := fmt.Fprintln(r.Out, line)
		return err
	})
}

// each calls take for each line of the log.
func (r *logsRun) each(ctx context.Context, of client.Object, parameters map[string]string, take func(line string) error) error {
	stream, err := r.cluster.subresource(http.MethodGet, of, "log", parameters).Stream(ctx)
	if apierrors.IsBadRequest(err) {
		// The build number or the version does not exist.
		return cli.Usage("the log of %s: %v", of.GetName(), err)
	}
	if err != nil {
		return fmt.Errorf("the log of %s: %w", of.GetName(), err)
	}
	defer func() { _ = stream.Close() }()
	if err := eachLine(stream, take); err != nil {
		return fmt.Errorf("reading the log of %s: %w", of.GetName(), err)
	}
	return nil
}

// eachLine calls take for each line without its line break. The length of a line is not limited.
func eachLine(stream io.Reader, take func(line string) error) error {
	lines := bufio.NewReader(stream)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			if err := take(strings.TrimRight(line, "\r\n")); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
