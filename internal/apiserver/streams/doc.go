// Package streams serves the protocols of pods/exec and pods/portforward: those that
// remotecommand and portforward of client-go use.
//
// A command, or a connection that speaks SSH, is served over WebSocket (v5.channel.k8s.io) and SPDY (v4.channel.k8s.io),
// a port over SPDY and SPDY in WebSocket (SPDY/3.1+portforward.k8s.io). What the
// packages of Kubernetes serve is left to them. They have no server of the WebSocket
// protocol that runs a command itself, so that one is here.
package streams
