// Package logtest collects log lines in tests. It is safe for concurrent use.
package logtest
