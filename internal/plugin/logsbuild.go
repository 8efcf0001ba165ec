package plugin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
)

// logSource is a log in Coder.
type logSource struct {
	namespace, resource, name string
	query                     map[string]string
}

func (r *logsRun) workspace(ctx context.Context, name string) error {
	ws, err := r.cluster.Workspace(ctx, name)
	if err != nil {
		return err
	}
	s := logSource{ws.Namespace, "coderworkspaces", ws.Name, map[string]string{}}
	if r.build != 0 {
		s.query["build"] = strconv.Itoa(int(r.build))
	}
	if r.scripts {
		s.query["source"] = "agent"
	}
	for parameter, value := range map[string]string{"agent": r.agentName, "script": r.script} {
		if value != "" {
			s.query[parameter] = value
		}
	}
	return r.print(ctx, s)
}

func (r *logsRun) template(ctx context.Context, name string) error {
	tmpl, err := r.cluster.Template(ctx, name)
	if err != nil {
		return err
	}
	s := logSource{tmpl.Namespace, "codertemplates", tmpl.Name, map[string]string{}}
	if r.version != "" {
		if s.query["version"], err = r.versionID(ctx, tmpl); err != nil {
			return err
		}
	}
	return r.print(ctx, s)
}

// versionID returns the UUID of the version from --version.
func (r *logsRun) versionID(ctx context.Context, tmpl *aggregationv1alpha1.CoderTemplate) (string, error) {
	found, err := r.cluster.TemplateVersion(ctx, tmpl, r.version)
	if err != nil {
		return "", err
	}
	return found.ID, nil
}

// print writes the log, or its last lines. With --follow and --tail it first counts the existing
// lines.
func (r *logsRun) print(ctx context.Context, s logSource) error {
	skip := 0
	if r.tail >= 0 {
		lines := 0
		if err := r.each(ctx, s, false, func(string) error { lines++; return nil }); err != nil {
			return err
		}
		skip = max(0, lines-int(r.tail))
	}
	return r.each(ctx, s, r.follow, func(line string) error {
		if skip--; skip >= 0 {
			return nil
		}
		return r.write("", line)
	})
}

// each calls take for each line of the log.
func (r *logsRun) each(ctx context.Context, s logSource, follow bool, take func(line string) error) error {
	query := map[string]string{}
	for key, value := range s.query {
		query[key] = value
	}
	if follow {
		query["follow"] = "true"
	}
	stream, err := r.cluster.Stream(ctx, s.namespace, s.resource, s.name, "log", query)
	if err != nil {
		return logRefused(s, err)
	}
	defer func() { _ = stream.Close() }()
	if err := eachLine(stream, take); err != nil {
		return fmt.Errorf("reading the log of %s: %w", s.name, err)
	}
	return nil
}

// logRefused returns a usage error if the build number or version does not exist.
func logRefused(s logSource, err error) error {
	if apierrors.IsBadRequest(err) {
		return cli.Usage("the log of %s: %v", s.name, err)
	}
	return fmt.Errorf("the log of %s: %w", s.name, err)
}

// eachLine calls take for each line without its line break. The length of a line is not limited.
func eachLine(stream io.Reader, take func(line string) error) error {
	lines := bufio.NewReader(stream)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			if err := take(trimEnd(line)); err != nil {
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
