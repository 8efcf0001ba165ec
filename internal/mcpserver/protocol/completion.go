package protocol

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxCompletions is the maximum number of values that the protocol allows in one answer.
const maxCompletions = 100

type completionHandler = func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error)

// completion limits the values of handler to maxCompletions. It returns nil if handler is
// nil, so that the capability is not advertised.
func completion(handler completionHandler) completionHandler {
	if handler == nil {
		return nil
	}
	return func(ctx context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
		result, err := handler(ctx, req)
		if err != nil {
			return nil, err
		}
		if result == nil {
			result = &mcp.CompleteResult{}
		}
		details := &result.Completion
		switch {
		case details.Values == nil:
			details.Values = []string{}
		case len(details.Values) > maxCompletions:
			details.Total = max(details.Total, len(details.Values))
			details.Values, details.HasMore = details.Values[:maxCompletions], true
		}
		return result, nil
	}
}
