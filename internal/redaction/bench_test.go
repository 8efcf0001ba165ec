package redaction

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkText is what a log costs.
func BenchmarkText(b *testing.B) {
	var log strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&log, `{"level":"info","ts":"2026-11-21T11:59:%02dZ","msg":"Reconciled","controller":"codercontrolplane","namespace":"coder","name":"coder-%d"}`+"\n", i%60, i)
	}
	var r Redactor
	for i := range 30 {
		r.Learn(fmt.Sprintf("a-secret-value-%d-of-some-length", i))
	}
	b.SetBytes(int64(log.Len()))
	for b.Loop() {
		r.Text(log.String())
	}
}
