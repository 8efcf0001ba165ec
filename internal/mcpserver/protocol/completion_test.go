package protocol

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestCompletionsAreCut(t *testing.T) {
	many := make([]string, 150)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	tests := map[string]struct {
		result *mcp.CompleteResult
		err    error
		want   mcp.CompletionResultDetails
	}{
		"few":               {&mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: many[:2], Total: 2}}, nil, mcp.CompletionResultDetails{Values: many[:2], Total: 2}},
		"many":              {&mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: many}}, nil, mcp.CompletionResultDetails{Values: many[:100], Total: 150, HasMore: true}},
		"some of very many": {&mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: many, Total: 9000}}, nil, mcp.CompletionResultDetails{Values: many[:100], Total: 9000, HasMore: true}},
		"nothing":           {&mcp.CompleteResult{}, nil, mcp.CompletionResultDetails{Values: []string{}}},
		"no answer":         {nil, nil, mcp.CompletionResultDetails{Values: []string{}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			complete := completion(func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) { return tt.result, tt.err })
			got, err := complete(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got.Completion); diff != "" {
				t.Errorf("completion (-want +got):\n%s", diff)
			}
		})
	}
	if completion(nil) != nil {
		t.Error("without a handler completion is offered")
	}
	failing := completion(func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) { return nil, errors.New("x") })
	if result, err := failing(t.Context(), nil); err == nil || result != nil {
		t.Errorf("an error gives %v, %v", result, err)
	}
}
