package apiserver

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	// Importing these packages registers their metrics, as in the server.
	_ "k8s.io/apiserver/pkg/admission/metrics"
	_ "k8s.io/apiserver/pkg/audit"
)

// libraryRegistry returns a registry with one exported metric and one that is not exported.
func libraryRegistry(t *testing.T) *prometheus.Registry {
	t.Helper()
	registry := prometheus.NewRegistry()
	for _, name := range []string{"apiserver_request_total", "apiserver_secret_total"} {
		requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: "Requests."},
			[]string{"group", "resource", "subresource", "verb"})
		registry.MustRegister(requests)
		for _, labels := range [][]string{
			{"aggregation.coder.com", "coderworkspaces", "", "LIST"},
			{"aggregation.coder.com", "coderworkspaces", "log", "GET"},
			{"", "", "", "GET"},
			{"made.up", "coderworkspaces", "", "LIST"},
			{"aggregation.coder.com", "made-up-1", "", "LIST"},
			{"aggregation.coder.com", "coderworkspaces", "made-up-2", "LIST"},
		} {
			requests.WithLabelValues(labels...).Inc()
		}
	}
	return registry
}

func TestOnlyWhatIsServedIsTold(t *testing.T) {
	families, err := allowListed{libraryRegistry(t)}.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var values []string
			for _, label := range metric.GetLabel() {
				values = append(values, label.GetValue())
			}
			got = append(got, family.GetName()+" "+strings.Join(values, ","))
		}
	}
	want := []string{
		"apiserver_request_total ,,,GET",
		"apiserver_request_total aggregation.coder.com,coderworkspaces,,LIST",
		"apiserver_request_total aggregation.coder.com,coderworkspaces,log,GET",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

type broken struct{ prometheus.Gatherer }

func (b broken) Gather() ([]*dto.MetricFamily, error) {
	families, _ := b.Gatherer.Gather()
	return families, errors.New("one collector failed")
}

// TestAnErrorKeepsTheRest checks that an error of one collector does not drop the metrics of
// others.
func TestAnErrorKeepsTheRest(t *testing.T) {
	families, err := allowListed{broken{libraryRegistry(t)}}.Gather()
	if err == nil || len(families) != 1 {
		t.Errorf("%d families, error %v", len(families), err)
	}
}

// TestTheLibraryHasTheFamilies checks that the library has every family of the list, so that an
// update of the library cannot remove one unnoticed.
func TestTheLibraryHasTheFamilies(t *testing.T) {
	descriptions := make(chan *prometheus.Desc)
	go func() {
		DescribeLibraryMetrics(descriptions)
		close(descriptions)
	}()
	missing := LibraryMetrics()
	for description := range descriptions {
		missing = slices.DeleteFunc(missing, func(name string) bool {
			return strings.Contains(description.String(), `fqName: "`+name+`"`)
		})
	}
	if len(missing) > 0 {
		t.Errorf("the library has no metrics of these names: %q", missing)
	}
}
