package supportbundle

import (
	"encoding/base64"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// learnContent has the redactor learn what a Secret holds, so that it is found
// wherever else it stands. A release of Helm is no secret but a chart, compressed.
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

// isName says that a key of a Secret holds the name of an account. It is told, for
// it stands in every second line of a log.
func isName(key string) bool { return key == "username" || key == "namespace" }

// learnCaller has the redactor learn what the caller comes in with.
func (c *collector) learnCaller() {
	for _, value := range []string{c.config.BearerToken, c.config.Password, string(c.config.KeyData)} {
		c.redactor.Learn(value)
	}
}
