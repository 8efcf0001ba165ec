package protocol

import (
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// beginSessionCall counts a request of a user in a session until its end is called.
// Such requests go on when their connections are gone, and so without a place at the
// gate. The error is for the client.
func (s *Server) beginSessionCall(user string) (end func(), err error) {
	end, ok := s.sessionCalls.Begin(user)
	if !ok {
		return nil, &jsonrpc.Error{Code: codeBusy, Message: fmt.Sprintf("user %q has %d requests in sessions that have not ended, and may have no more: wait for one of them, or cancel it", user, s.sessionCalls.Most())}
	}
	return end, nil
}
