package workspace

import (
	"context"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// valuesOf returns the values of all parameters in the newest build of a workspace.
func (k *Kind) valuesOf(ctx context.Context, connection connections.Connection, w coderd.Workspace) (map[string]string, error) {
	build := w.LatestBuild.ID
	if values, ok := k.values.Get(build); ok {
		return values.(map[string]string), nil
	}
	parameters, err := connection.Client.BuildParameters(ctx, build)
	if err != nil {
		return nil, err
	}
	values := make(map[string]string, len(parameters))
	for _, p := range parameters {
		values[p.Name] = p.Value
	}
	k.values.Add(build, values)
	return values, nil
}

// named returns the values of the parameters that clients have set through this API. If Coder has
// no value for a parameter any more, the last value is kept.
func (n intent) named(all map[string]string) map[string]string {
	out := make(map[string]string, len(n.Parameters))
	for _, name := range n.Parameters {
		if v, ok := all[name]; ok {
			out[name] = v
			continue
		}
		if n.Values == nil {
			continue
		}
		if v, ok := n.Values.Values[name]; ok {
			out[name] = v
		}
	}
	return out
}

// refresh returns the intent with the values of the newest build.
func (k *Kind) refresh(ctx context.Context, connection connections.Connection, w coderd.Workspace, n intent) (intent, error) {
	if len(n.Parameters) == 0 {
		n.Values = nil
		return n, nil
	}
	if n.Values != nil && n.Values.Build == w.LatestBuild.ID {
		return n, nil
	}
	all, err := k.valuesOf(ctx, connection, w)
	if err != nil {
		return n, err
	}
	n.Values = &buildValues{Build: w.LatestBuild.ID, Values: n.named(all)}
	return n, nil
}

// learnCause reads the log of a failed build to find its error, if the object does not show it yet.
func (k *Kind) learnCause(ctx context.Context, connection connections.Connection, b coderd.Build, previous object) {
	if b.Status == statusFailed && shownError(b, previous) == b.Error {
		k.causes.Learn(ctx, b.ID, b.Error, b.UpdatedAt, connection.Client.BuildCause)
	}
}

// errorOf returns the error of a failed build: the error of Terraform, if it is known.
func (k *Kind) errorOf(b coderd.Build, previous object) string {
	if cause := k.causes.Get(b.ID); cause != "" && b.Status == statusFailed {
		return cause
	}
	return shownError(b, previous)
}

// shownError returns the error that the object shows for the same build. Another replica may have
// found it in the log.
func shownError(b coderd.Build, previous object) string {
	if previous == nil || previous.Status.LatestBuildID != b.ID.String() || previous.Status.LatestBuildStatus != b.Status ||
		previous.Status.LatestBuildError == "" {
		return b.Error
	}
	return previous.Status.LatestBuildError
}
