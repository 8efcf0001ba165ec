package admission

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestExamplesAreAccepted checks that the examples in the docs and the samples have no
// unknown fields.
func TestExamplesAreAccepted(t *testing.T) {
	ns := namespace(t)
	texts := map[string][]string{}
	pages, err := filepath.Glob("../../docs/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range yamlBlock.FindAllStringSubmatch(string(raw), -1) {
			texts[page] = append(texts[page], match[1])
		}
	}
	samples, err := filepath.Glob("../../config/samples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, sample := range samples {
		raw, err := os.ReadFile(sample)
		if err != nil {
			t.Fatal(err)
		}
		texts[sample] = []string{string(raw)}
	}
	tried := 0
	for file, list := range texts {
		for _, text := range list {
			decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
			for {
				o := &unstructured.Unstructured{}
				err := decoder.Decode(&o.Object)
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Errorf("%s: %v:\n%s", file, err, text)
					break
				}
				if o.GetAPIVersion() != "coder.com/v1alpha1" {
					continue
				}
				tried++
				o.SetNamespace(ns)
				if err := environment.client.Create(t.Context(), o, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
					t.Errorf("%s: %s %s: %v", file, o.GetKind(), o.GetName(), err)
				}
			}
		}
	}
	if tried < 4 {
		t.Errorf("only %d objects were found", tried)
	}
}
