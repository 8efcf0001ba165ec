// Package remoteexec is the client of subresources that serve the protocols of
// pods/exec and pods/portforward, such as coderworkspaces/exec.
//
// It uses client-go's remotecommand and portforward: a WebSocket, and SPDY if a proxy in between does
// not pass WebSockets. The connection and the identity are those of the rest.Config.
package remoteexec
