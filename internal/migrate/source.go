package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/kubernetes"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/migrate/manifests"
	"github.com/coder-k8s/coder-k8s/internal/migrate/release"
	"github.com/coder-k8s/coder-k8s/internal/migrate/values"
	"github.com/coder-k8s/coder-k8s/internal/version"
)

// source reads the input. A PartialError lists files that could not be read.
func (o *options) source(ctx context.Context) (manifests.Source, error) {
	namespace, _, err := o.config.ToRawKubeConfigLoader().Namespace()
	if err != nil && len(o.values) == 0 {
		return manifests.Source{}, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	switch {
	case len(o.values) > 0:
		return o.fromFiles(namespace)
	case o.releaseSecret != "":
		raw, err := o.readFile(o.releaseSecret)
		if err != nil {
			return manifests.Source{}, fmt.Errorf("reading the Secret of the release: %w", err)
		}
		found, err := release.FromFile(o.releaseSecret, raw)
		if err != nil {
			return manifests.Source{}, err
		}
		return o.fromRelease(found)
	}
	config, err := cli.Cluster(o.config, version.UserAgent())
	if err != nil {
		return manifests.Source{}, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return manifests.Source{}, fmt.Errorf("reaching the cluster: %w", err)
	}
	found, err := release.Find(ctx, client, namespace, o.release)
	if err != nil {
		return manifests.Source{}, err
	}
	return o.fromRelease(found)
}

// fromFiles merges values files in order. A file that cannot be read is skipped, unless all of them
// cannot be read.
func (o *options) fromFiles(namespace string) (manifests.Source, error) {
	var all values.Set
	var failed []error
	for _, name := range o.values {
		raw, err := o.readFile(name)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		set, err := values.Parse(shown(name), raw)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		all = all.Over(set)
	}
	if len(failed) == len(o.values) {
		return manifests.Source{}, errors.Join(failed...)
	}
	source := manifests.Source{
		Description: "the values in " + strings.Join(o.values, ", "),
		Chart:       o.chart, Release: o.release, Namespace: namespace, Values: all,
	}
	if source.Namespace == "" {
		source.Namespace = "default"
	}
	if source.Chart == "" {
		source.Chart = chartOf(all)
	}
	if source.Release == "" {
		source.Release = source.Chart
	}
	if len(failed) > 0 {
		return source, &cli.PartialError{Err: errors.Join(failed...)}
	}
	return source, nil
}

func shown(file string) string {
	if file == standard {
		return "standard input"
	}
	return file
}

// chartOf detects the chart by values that only one of the two has.
func chartOf(given values.Set) string {
	for _, path := range []string{"provisionerDaemon.keySecretName", "provisionerDaemon.keySecretKey", "provisionerDaemon.tags",
		"provisionerDaemon.terminationGracePeriodSeconds"} {
		if _, has := given.Get(path); has {
			return manifests.ChartProvisioner
		}
	}
	return manifests.ChartCoder
}

func (o *options) fromRelease(found *release.Release) (manifests.Source, error) {
	chart := found.Chart.Metadata.Name
	if o.chart != "" {
		chart = o.chart
	}
	if chart != manifests.ChartCoder && chart != manifests.ChartProvisioner {
		return manifests.Source{}, fmt.Errorf("the release %q is of the chart %q, which is none of Coder's; where that holds a chart of Coder's, "+
			"write the values of that part into a file and use --values and --chart", found.Name, chart)
	}
	described := fmt.Sprintf("revision %d of the release %s in namespace %s, chart %s %s",
		found.Revision, found.Name, found.Namespace, found.Chart.Metadata.Name, found.Chart.Metadata.Version)
	return manifests.Source{
		Description: described, Chart: chart, Release: found.Name, Namespace: found.Namespace,
		AppVersion: found.Chart.Metadata.AppVersion, Values: values.Of("release "+found.Name, found.Config),
	}, nil
}
