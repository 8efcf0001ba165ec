// Package agentstest is an agent for tests: an SSH server in this process that runs
// commands with the shell of this machine, and no network.
package agentstest
