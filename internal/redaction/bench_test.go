package redaction

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkText measures the redaction of a log, with learned values and without.
func BenchmarkText(b *testing.B) {
	log, r := ordinaryLog()
	b.SetBytes(int64(len(log)))
	for b.Loop() {
		r.Text(log)
	}
}

func BenchmarkProse(b *testing.B) {
	log, _ := ordinaryLog()
	b.SetBytes(int64(len(log)))
	for b.Loop() {
		Prose(log)
	}
}

func ordinaryLog() (string, *Redactor) {
	var log strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&log, `{"level":"info","ts":"2026-11-21T11:59:%02dZ","msg":"Reconciled","controller":"codercontrolplane","namespace":"coder","name":"coder-%d"}`+"\n", i%60, i)
	}
	var r Redactor
	for i := range 30 {
		r.Learn(fmt.Sprintf("a-secret-value-%d-of-some-length", i))
	}
	return log.String(), &r
}
