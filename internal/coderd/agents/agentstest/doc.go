// Package agentstest provides a fake agent for tests: an SSH server in this process that runs
// commands with the shell of this machine. It uses no network besides the loopback interface.
package agentstest
