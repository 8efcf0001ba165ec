package toolset

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
)

// RequireObject returns a UsageError unless both arguments are set and valid in a path. A
// slash in one of them would direct the request to another object.
func RequireObject(namespace, name string) error {
	if err := RequireNamespace(namespace); err != nil {
		return err
	}
	return requireName("name", name)
}

// RequireNamespace is RequireObject for a call about all objects of a namespace.
func RequireNamespace(namespace string) error { return requireName("namespace", namespace) }

func requireName(argument, value string) error {
	if value == "" {
		return UsageError(argument + " is required")
	}
	if why := content.IsPathSegmentName(value); len(why) > 0 {
		return UsageError(fmt.Sprintf("%s cannot be %q: it %s", argument, shorten(value), strings.Join(why, ", and ")))
	}
	return nil
}
