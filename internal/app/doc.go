// Package app makes the process: it reads the flags, builds one manager with one
// cache and one client, and adds to it the components of the mode that was asked
// for. It is the only package that knows all components.
//
// Invariants:
//   - The mode all is the union of the others; there is no code path of its own.
//   - Leader election gates the controllers alone. The aggregated API and the
//     MCP server run on every replica.
//   - A component that fails ends the process with its error and exit code 1. A
//     mistake on the command line is exit code 2, with all mistakes at once. Being
//     told to stop is exit code 0 within ten seconds, whatever hangs.
//   - What is wrong with the installation is told before anything else, and ends the
//     process only where it could not work at all: where a definition is missing.
//   - Secrets, ConfigMaps, Pods and Jobs are never cached.
package app
