package migrate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// recognized is the content of a file: values as Helm reads them, or the object of a GitOps tool that
// contains values.
type recognized struct {
	values Values
	// chart, release and namespace are those of the GitOps object. They are empty for a file of values.
	chart, release, namespace string
	// elsewhere lists values that are not in the file.
	elsewhere []Entry
}

// recognize reads a file. An error reports that it is another object.
func recognize(file string, raw []byte) (recognized, error) {
	values, err := ParseValues(file, raw)
	if err != nil {
		return recognized{}, err
	}
	kind := values.text("kind")
	switch {
	case kind == "" || values.text("apiVersion") == "":
	case kind == "HelmRelease":
		return recognized{
			values: values.below("spec.values"), chart: chartNamed(values.text("spec.chart.spec.chart")),
			release:   cmp.Or(values.text("spec.releaseName"), values.text("metadata.name")),
			namespace: cmp.Or(values.text("spec.targetNamespace"), values.text("metadata.namespace")),
			elsewhere: values.elsewhere("spec.valuesFrom", "spec.chart.spec.valuesFiles"),
		}, nil
	case kind == "Application":
		return fromApplication(file, values)
	case kind == "Secret":
		return recognized{}, fmt.Errorf("%s: is the manifest of a Secret; if Helm keeps a release in it, use --release-secret", file)
	default:
		return recognized{}, fmt.Errorf("%s: is the manifest of a %s, and not the values of a chart of Coder", file, kind)
	}
	// "helm get values" prints such a line first, unless it is called with --output.
	for _, header := range []string{"USER-SUPPLIED VALUES", "COMPUTED VALUES"} {
		if value, has := values.Content[header]; has && value == nil {
			delete(values.Content, header)
		}
	}
	return recognized{values: values}, nil
}

// fromApplication reads an Application of Argo CD with one source.
func fromApplication(file string, object Values) (recognized, error) {
	const source = "spec.source"
	if _, several := object.Get("spec.sources"); several {
		return recognized{}, fmt.Errorf("%s: is an Application with spec.sources; write the values of Coder's chart into a file of its own", object.At("spec.sources"))
	}
	values := object.below(source + ".helm.valuesObject")
	if len(values.Content) == 0 {
		path := source + ".helm.values"
		at := object.At(path)
		parsed, err := ParseValues(file, []byte(object.text(path)))
		if err != nil {
			return recognized{}, fmt.Errorf("%s: %s: %w", at, path, err)
		}
		for below, place := range parsed.places {
			// The text begins in the line after its key.
			place.Line += at.Line
			parsed.places[below] = place
		}
		values = parsed
	}
	return recognized{
		values: values, chart: chartNamed(object.text(source + ".chart")),
		release:   cmp.Or(object.text(source+".helm.releaseName"), object.text("metadata.name")),
		namespace: object.text("spec.destination.namespace"),
		elsewhere: object.elsewhere(source+".helm.valueFiles", source+".helm.parameters", source+".helm.fileParameters"),
	}, nil
}

// chartNamed returns the name if it is the name of a chart of Coder. Another name is that of a chart that
// contains it, or of a copy.
func chartNamed(name string) string {
	if name == ChartCoder || name == ChartProvisioner {
		return name
	}
	return ""
}

func (s Values) text(path string) string {
	value, _ := s.Get(path)
	text, _ := value.(string)
	return text
}

// below returns the values below a path, with their positions.
func (s Values) below(path string) Values {
	value, _ := s.Get(path)
	content, _ := value.(map[string]any)
	part := Values{Content: content, places: map[string]Position{"": s.At(path)}}
	for at, place := range s.places {
		if under, is := strings.CutPrefix(at, path+"."); is {
			part.places[under] = place
		}
	}
	return part
}

// elsewhere returns an entry for each of the paths that refers to values outside of the file.
func (s Values) elsewhere(paths ...string) []Entry {
	var all []Entry
	for _, path := range paths {
		if value, _ := s.Get(path); !empty(value) {
			all = append(all, Entry{Value: path, Where: s.At(path), Outcome: Manual,
				Note: "refers to values that are not in this file; write them into a file and give it with --values, in the same order"})
		}
	}
	return all
}

// part returns the values of Coder's chart in those of a parent chart, which are below the name of the
// chart. Values of Coder's chart itself are returned unchanged.
func (s Values) part() (Values, []Entry, error) {
	var charts []string
	for _, key := range slices.Sorted(maps.Keys(s.Content)) {
		if below, isMap := s.Content[key].(map[string]any); isMap && (isMapping(below["coder"]) || isMapping(below["provisionerDaemon"])) {
			charts = append(charts, key)
		}
	}
	switch len(charts) {
	case 0:
		return s, nil, nil
	case 1:
	default:
		return Values{}, nil, fmt.Errorf("the values %s belong to several charts of Coder; write what is below each into a file of its own", strings.Join(charts, ", "))
	}
	var others []Entry
	for _, key := range slices.Sorted(maps.Keys(s.Content)) {
		if key != charts[0] {
			others = append(others, Entry{Value: key, Where: s.At(key), Outcome: Unneeded,
				Note: "is a value of the parent chart; only those below " + charts[0] + " belong to Coder"})
		}
	}
	return s.below(charts[0]), others, nil
}

func isMapping(value any) bool {
	_, is := value.(map[string]any)
	return is
}

// chartOf recognizes the chart by the values that only one of the two has, and by the environment
// variables that only a server or only a provisioner reads.
func chartOf(given Values) (string, error) {
	tables := map[string]parityTable{ChartCoder: readParity(parityControlPlane), ChartProvisioner: readParity(parityProvisioner)}
	var server, provisioner []string
	isCoder := false
	for _, path := range given.Leaves(tables[ChartCoder].whole) {
		ofServer, ofProvisioner := tables[ChartCoder].covers(path), tables[ChartProvisioner].covers(path)
		isCoder = isCoder || ofServer || ofProvisioner
		switch {
		case ofServer && !ofProvisioner:
			server = append(server, path)
		case ofProvisioner && !ofServer:
			provisioner = append(provisioner, path)
		}
	}
	env, _ := given.Get("coder.env")
	entries, _ := env.([]any)
	// The beginnings of names of variables that a server or a proxy reads, and those that a provisioner reads.
	ofServer := []string{"CODER_ACCESS_URL", "CODER_WILDCARD_ACCESS_URL", "CODER_PG_", "CODER_OIDC_", "CODER_OAUTH2_", "CODER_EXTERNAL_AUTH_",
		"CODER_EXTERNAL_TOKEN_", "CODER_PRIMARY_ACCESS_URL", "CODER_PROXY_SESSION_TOKEN", "CODER_TLS_", "CODER_DERP_"}
	ofProvisioner := []string{"CODER_URL", "CODER_PROVISIONER_DAEMON_KEY", "CODER_PROVISIONER_DAEMON_NAME", "CODER_PROVISIONERD_"}
	for _, name := range slices.Sorted(maps.Keys(lastOf(entries))) {
		begins := func(beginning string) bool { return strings.HasPrefix(name, beginning) }
		switch {
		case slices.ContainsFunc(ofServer, begins):
			server = append(server, name)
		case slices.ContainsFunc(ofProvisioner, begins):
			provisioner = append(provisioner, name)
		}
	}
	switch {
	case len(server) > 0 && len(provisioner) > 0:
		return "", fmt.Errorf("the values belong to two charts: %s to %s, and %s to %s; give --chart",
			server[0], ChartCoder, provisioner[0], ChartProvisioner)
	case len(server) > 0:
		return ChartCoder, nil
	case len(provisioner) > 0:
		return ChartProvisioner, nil
	case !isCoder:
		return "", fmt.Errorf("none of the values is a value of the chart %s or %s; nothing was written", ChartCoder, ChartProvisioner)
	}
	return "", fmt.Errorf("the values do not show whether they are for the chart %s or %s; give --chart", ChartCoder, ChartProvisioner)
}
