package toolset

import "testing"

func TestRequireObject(t *testing.T) {
	for want, given := range map[string][2]string{
		"":                      {"coder", "coder.ada.dev"},
		"namespace is required": {"", "x"},
		"name is required":      {"coder", ""},
		`namespace cannot be "..": it may not be '..'`:                             {"..", "x"},
		`name cannot be "x/log": it may not contain '/'`:                           {"coder", "x/log"},
		`name cannot be "../%2e": it may not contain '/', and may not contain '%'`: {"coder", "../%2e"},
	} {
		err := RequireObject(given[0], given[1])
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%q gives %v, want %q", given, err, want)
		}
	}
}
