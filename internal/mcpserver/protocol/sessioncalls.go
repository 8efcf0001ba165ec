package protocol

import (
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// beginSessionCall counts a user's request in a session until end is called. Such requests
// continue after their connection closes, so the limits of the HTTP middleware do not cover them.
// The error is for the client.
func (s *Server) beginSessionCall(user string) (end func(), err error) {
	end, ok := s.sessionCalls.Begin(user)
	if !ok {
		return nil, &jsonrpc.Error{Code: codeBusy, Message: fmt.Sprintf("user %q has %d requests in sessions that have not ended, and may have no more: wait for one of them, or cancel it", user, s.sessionCalls.Most())}
	}
	return end, nil
}
