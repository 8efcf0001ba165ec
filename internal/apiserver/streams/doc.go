// Package streams implements the protocols of pods/exec and pods/portforward, as client-go's
// remotecommand and portforward use them.
//
// A command, or a connection that carries SSH, is served over WebSocket (v5.channel.k8s.io) and
// SPDY (v4.channel.k8s.io). Ports are served over SPDY and over SPDY in WebSocket
// (SPDY/3.1+portforward.k8s.io). The package uses the servers of the Kubernetes libraries if there
// are any. They have no WebSocket server that runs a command itself, so it is implemented here.
package streams
