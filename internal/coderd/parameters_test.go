package coderd_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// TestEvaluationOfHardCases covers responses that a template of the contract test cannot cause.
func TestEvaluationOfHardCases(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, tc := range map[string]struct {
		body string
		want []coderd.VersionParameter
		says string
	}{
		"no result": {`{"diagnostics":[{"severity":"warning","summary":"W"},{"severity":"error","summary":"Parse terraform files","detail":"main.tf:1"}]}`,
			nil, "Unable to validate parameters (Parse terraform files: main.tf:1) (HTTP 400)"},
		"a warning": {`{"diagnostics":[{"severity":"warning","summary":"W"}],"parameters":[{"name":"a","diagnostics":[{"severity":"warning","summary":"W"}]}]}`,
			[]coderd.VersionParameter{{Name: "a"}}, ""},
		"bounds that Coder cannot store": {`{"parameters":[{"name":"a","validations":[{"validation_min":-2147483648,"validation_max":2147483648}]}]}`,
			[]coderd.VersionParameter{{Name: "a", Min: small(-1 << 31)}}, ""},
		"long text": {`{"parameters":[{"name":"a","diagnostics":[{"severity":"error","summary":"S","detail":"` + long + `"}]}]}`,
			[]coderd.VersionParameter{{Name: "a", Problem: "S: " + long[:1<<10-3-len("\u2026")] + "\u2026"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(tc.body))
			}))
			defer web.Close()
			client, err := coderd.New(coderd.Config{URL: web.URL, Token: "t"})
			ok(t, err)
			got, err := client.EvaluateParameters(t.Context(), uuid.New(), uuid.New(), nil)
			if tc.says == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Fatalf("%v, want %q", err, tc.says)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
