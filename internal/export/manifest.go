package export

import (
	"bytes"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// manifest is one object to apply.
type manifest struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Spec       any      `json:"spec"`

	// folder is the folder for the objects of its kind.
	folder string
	// comments are written above the object.
	comments []string
}

// metadata is the part of an object's metadata that a person writes.
type metadata struct {
	Namespace   string            `json:"namespace,omitempty"`
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// lastApplied is an annotation of kubectl. It contains the whole object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

func newManifest(kind, folder string, from metav1.ObjectMeta) manifest {
	own := func(all map[string]string) map[string]string {
		out := map[string]string{}
		for key, value := range all {
			switch key {
			case lastApplied, aggregationv1alpha1.LabelControlPlaneName, aggregationv1alpha1.LabelControlPlaneNamespace:
			default:
				out[key] = value
			}
		}
		return out
	}
	return manifest{
		APIVersion: aggregationv1alpha1.GroupVersion.String(), Kind: kind, folder: folder,
		Metadata: metadata{Namespace: from.Namespace, Name: from.Name, Labels: own(from.Labels), Annotations: own(from.Annotations)},
	}
}

// endsLine reports whether YAML treats a character as the end of a line, and therefore of a
// comment.
func endsLine(r rune) bool { return strings.ContainsRune("\n\r\u0085\u2028\u2029", r) }

// bytes returns the manifest as YAML.
func (m manifest) bytes() ([]byte, error) {
	text, err := yaml.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("writing %s %s: %w", m.Kind, m.Metadata.Name, err)
	}
	var out bytes.Buffer
	for _, comment := range m.comments {
		for _, line := range strings.FieldsFunc(comment, endsLine) {
			fmt.Fprintf(&out, "# %s\n", line)
		}
	}
	out.Write(text)
	return out.Bytes(), nil
}
