package template

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/plugin/session"
)

const (
	// pollInterval is the interval at which the build is polled.
	pollInterval = time.Second
	// shownLogLines is the number of log lines that are shown of a failed build.
	shownLogLines = 20
)

// await waits until the pushed version is active, or its build has failed. It ignores responses of
// a replica that has not processed the push yet.
func (p *push) await(ctx context.Context, tmpl *aggregationv1alpha1.CoderTemplate) (*aggregationv1alpha1.CoderTemplate, error) {
	progress := p.Progress()
	defer progress.End()
	began, pushed := p.Clock.Now(), tmpl.Generation
	for {
		now := &aggregationv1alpha1.CoderTemplate{}
		err := p.cluster.Get(ctx, client.ObjectKeyFromObject(tmpl), now)
		switch {
		case session.IsTemporary(err):
		case err != nil:
			return tmpl, fmt.Errorf("reading template %s: %w", tmpl.Name, err)
		default:
			tmpl = now
		}
		ready := meta.FindStatusCondition(tmpl.Status.Conditions, aggregationv1alpha1.ConditionReady)
		current := tmpl.Generation >= pushed && tmpl.Status.ObservedGeneration >= tmpl.Generation
		if ready != nil && current {
			progress.Report(p.Clock.Now(), 0, 1, tmpl.Name, ready.Message)
			if ready.Status == metav1.ConditionTrue {
				return tmpl, nil
			}
			if stalled := meta.FindStatusCondition(tmpl.Status.Conditions, aggregationv1alpha1.ConditionStalled); stalled != nil && stalled.Status == metav1.ConditionTrue {
				progress.End()
				p.showLog(ctx, tmpl)
				return tmpl, fmt.Errorf("template %s: %s", tmpl.Name, cli.Clean(stalled.Message))
			}
		}
		if p.timeout > 0 && p.Clock.Now().Sub(began) >= p.timeout {
			return tmpl, fmt.Errorf("after %s the new version of template %s is not active; its build goes on without this command", p.timeout, tmpl.Name)
		}
		if err := p.Clock.Wait(ctx, pollInterval); err != nil {
			return tmpl, &cli.InterruptedError{GoesOn: "the build goes on without this command"}
		}
	}
}

// showLog prints the end of the failed version's log, if it can be read.
func (p *push) showLog(ctx context.Context, tmpl *aggregationv1alpha1.CoderTemplate) {
	query := map[string]string{}
	if source := tmpl.Status.Source; source != nil && source.VersionID != "" {
		query["version"] = source.VersionID
	}
	stream, err := p.cluster.Stream(ctx, tmpl.Namespace, "codertemplates", tmpl.Name, "log", query)
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
