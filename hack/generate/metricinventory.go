package main

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	// The import registers its metrics in the registry of controller-runtime.
	_ "sigs.k8s.io/controller-runtime/pkg/controller"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/coder-k8s/coder-k8s/internal/apiserver"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/certificates"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/mirror"
	"github.com/coder-k8s/coder-k8s/internal/app"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/protocol"
)

// metricFamily is a metric family.
type metricFamily struct {
	// Name and Help are the values in the code.
	Name, Help string
	// Type is counter, gauge or histogram. It is empty if it is unknown, as for metrics of
	// libraries.
	Type string
	// Labels are the labels that the process sets, without those of the scrape target.
	Labels []string
}

// ownMetrics returns the metrics of this project, sorted by name.
func ownMetrics() ([]metricFamily, error) {
	r := &metricRecorder{}
	var errs []error
	for _, register := range []func() error{
		func() error { return app.RegisterBuildInfo(r) },
		func() error { _, err := framework.NewMetrics(r); return err },
		func() error { _, err := coderd.NewMetrics(r); return err },
		func() error { _, err := mirror.NewMetrics(r); return err },
		func() error { _, err := impersonation.NewMetrics(r); return err },
		func() error { _, err := certificates.NewMetrics(r); return err },
		func() error { _, err := protocol.NewMetrics(r, nil); return err },
	} {
		errs = append(errs, register())
	}
	return sortedMetrics(r.metrics), errors.Join(append(errs, r.errs...)...)
}

// libraryMetrics returns the metrics of controller-runtime, of Go and the process, and the
// exported metrics of the API server library, sorted by name.
func libraryMetrics() ([]metricFamily, error) {
	var all []metricFamily
	var errs []error
	add := func(describe func(chan<- *prometheus.Desc), exported func(name string) bool) {
		for _, description := range descriptions(describe) {
			metric, err := parseDescription(description)
			if err == nil && exported(metric.Name) {
				all = append(all, metric)
			}
			errs = append(errs, err)
		}
	}
	if registry, ok := ctrlmetrics.Registry.(prometheus.Collector); ok {
		add(registry.Describe, func(name string) bool { return !strings.HasPrefix(name, "coder_k8s_") })
	}
	exported := apiserver.LibraryMetrics()
	add(apiserver.DescribeLibraryMetrics, func(name string) bool { return slices.Contains(exported, name) })
	return sortedMetrics(all), errors.Join(errs...)
}

func sortedMetrics(metrics []metricFamily) []metricFamily {
	slices.SortFunc(metrics, func(a, b metricFamily) int { return cmp.Compare(a.Name, b.Name) })
	return slices.CompactFunc(metrics, func(a, b metricFamily) bool { return a.Name == b.Name })
}

// metricRecorder is a registry that only records the descriptions of what is registered.
type metricRecorder struct {
	metrics []metricFamily
	errs    []error
}

// Register implements prometheus.Registerer.
func (r *metricRecorder) Register(c prometheus.Collector) error {
	for _, description := range descriptions(c.Describe) {
		metric, err := parseDescription(description)
		metric.Type = metricTypeOf(c)
		r.metrics, r.errs = append(r.metrics, metric), append(r.errs, err)
	}
	return nil
}

// MustRegister implements prometheus.Registerer.
func (r *metricRecorder) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		r.errs = append(r.errs, r.Register(c))
	}
}

// Unregister implements prometheus.Registerer.
func (*metricRecorder) Unregister(prometheus.Collector) bool { return false }

func metricTypeOf(c prometheus.Collector) string {
	switch c.(type) {
	// The gauge interface includes all methods of the counter interface, so gauges come
	// first.
	case *prometheus.GaugeVec, prometheus.Gauge:
		return "gauge"
	case *prometheus.CounterVec, prometheus.Counter:
		return "counter"
	case *prometheus.HistogramVec:
		return "histogram"
	}
	return ""
}

func descriptions(describe func(chan<- *prometheus.Desc)) []*prometheus.Desc {
	each := make(chan *prometheus.Desc)
	go func() {
		describe(each)
		close(each)
	}()
	var all []*prometheus.Desc
	for description := range each {
		all = append(all, description)
	}
	return all
}

// parseDescription parses the string form of a description, because its fields are not exported.
func parseDescription(description *prometheus.Desc) (metricFamily, error) {
	parts := regexp.MustCompile(`fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"), .*variableLabels: \{(.*)\}\}$`).
		FindStringSubmatch(description.String())
	if parts == nil {
		return metricFamily{}, fmt.Errorf("bug: the description of a metric has another form than known: %s", description)
	}
	name, errName := strconv.Unquote(parts[1])
	help, errHelp := strconv.Unquote(parts[2])
	metric := metricFamily{Name: name, Help: help}
	if parts[3] != "" {
		metric.Labels = strings.Split(parts[3], ",")
	}
	return metric, errors.Join(errName, errHelp)
}
