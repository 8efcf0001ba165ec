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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/cli"
)

func (r *logsRun) workspace(ctx context.Context, name string) error {
	ws, err := r.cluster.Workspace(ctx, name)
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

func (r *logsRun) template(ctx context.Context, name string) error {
	tmpl, err := r.cluster.Template(ctx, name)
	if err != nil {
		return err
	}
	parameters := map[string]string{}
	if r.version != "" {
		version, err := r.cluster.TemplateVersion(ctx, tmpl, r.version)
		if err != nil {
			return err
		}
		parameters["version"] = version
	}
	return r.print(ctx, tmpl, parameters)
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
		return r.write(line)
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

// write writes one line.
func (r *logsRun) write(line string) error {
	if r.Screen {
		line = cli.Visible(line)
	}
	_, err := fmt.Fprintln(r.Out, line)
	return err
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
