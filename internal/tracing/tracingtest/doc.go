// Package tracingtest provides a trace collector for tests, which receives spans over OTLP
// and gRPC.
package tracingtest
