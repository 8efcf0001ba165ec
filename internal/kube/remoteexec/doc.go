// Package remoteexec is a client for subresources that serve the protocol of pods/exec, such as
// coderworkspaces/exec.
//
// It uses client-go's remotecommand with a WebSocket, and with SPDY if a proxy does not support
// WebSockets. The connection and the credentials are those of the rest.Config.
package remoteexec
