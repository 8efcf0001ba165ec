package tracing_test

import (
	"strings"
	"testing"

	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

func TestCleanRequestID(t *testing.T) {
	for id, want := range map[string]string{
		"":                                     "",
		"6f1c2f0e-5d0b-4e4d-9a68-1a2b3c4d5e6f": "6f1c2f0e-5d0b-4e4d-9a68-1a2b3c4d5e6f",
		"CI_run.7":                             "CI_run.7",
		"a b\"c\\d\n(e)":                       "a_b_c_d__e_",
		"ünicode":                              "_nicode",
		strings.Repeat("x", 65):                strings.Repeat("x", 64),
	} {
		if got := tracing.CleanRequestID(id); got != want {
			t.Errorf("%q becomes %q, want %q", id, got, want)
		}
	}
}

func TestRequestID(t *testing.T) {
	if id := tracing.RequestID(t.Context()); id != "" {
		t.Errorf("a context of no request has the id %q", id)
	}
	ctx := tracing.WithRequestID(t.Context(), "a b")
	if id := tracing.RequestID(ctx); id != "a_b" {
		t.Errorf("got %q", id)
	}
	if tracing.WithRequestID(ctx, "") != ctx {
		t.Error("an empty id changes the context")
	}
}
