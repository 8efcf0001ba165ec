// Package tracingtest is a collector of traces for tests: what a process sends over
// OTLP and gRPC, as it arrives.
package tracingtest
