// Package app sets up the process: it parses the flags, creates one manager with one cache
// and one client, and adds the components of the selected mode. It is the only package that
// imports all components.
//
// Invariants:
//   - The mode "all" is the union of the others; it has no code of its own.
//   - The leader election of the manager applies only to the controllers. The aggregated API
//     and the MCP server run on every replica. The aggregated API elects the replica that
//     mirrors Coder itself (internal/apiserver/leader.go).
//   - If a component fails, the process ends with its error and exit code 1. If the
//     command line is invalid, it reports all errors at once and ends with exit code 2.
//     After a signal, it ends with exit code 0 within ten seconds, even if a component
//     hangs.
//   - Problems of the installation are logged first. They end the process only if it
//     cannot work at all, because a definition is missing.
//   - Secrets, ConfigMaps, Pods and Jobs are never cached.
package app
