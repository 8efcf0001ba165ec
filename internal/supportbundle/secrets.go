package supportbundle

import (
	"encoding/base64"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// learnContent has the redactor learn the values of a Secret, so that they are redacted
// wherever else they occur. Secrets of Helm releases are skipped: they contain a compressed
// chart.
func (c *collector) learnContent(object *unstructured.Unstructured) {
	if object.GetKind() != "Secret" {
		return
	}
	if kind, _, _ := unstructured.NestedString(object.Object, "type"); kind == "helm.sh/release.v1" {
		return
	}
	data, _, _ := unstructured.NestedMap(object.Object, "data")
	for key, value := range data {
		text, _ := value.(string)
		if plain, err := base64.StdEncoding.DecodeString(text); err == nil && !isName(key) {
			c.redactor.Learn(string(plain))
		}
	}
}

// isName reports whether a key of a Secret contains a name. Such a value is not redacted
// elsewhere, because it occurs in many lines of the logs.
func isName(key string) bool { return key == "username" || key == "namespace" }

// learnCaller has the redactor learn the caller's credentials.
func (c *collector) learnCaller() {
	for _, value := range []string{c.config.BearerToken, c.config.Password, string(c.config.KeyData)} {
		c.redactor.Learn(value)
	}
}
