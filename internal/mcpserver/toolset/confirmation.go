package toolset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/confirm"
)

// confirmField is the name of the argument, of the input request and of the field in its
// form.
const confirmField = "confirm"

// Question asks a user to confirm a destructive change.
type Question struct {
	// Name is the value that the argument confirm must have if the client cannot ask its
	// user. It is normally the name of the object.
	Name string
	// UID is the UID of the object. An answer is not valid for a new object of the same
	// name.
	UID types.UID
	// Text is the question in one sentence: "Delete workspace x with all its data?"
	Text string
}

// Confirm returns nil if the call may continue. If the client supports elicitation, Confirm
// asks its user. Otherwise the argument confirm of the call must equal q.Name; if
// elicitation is required, the call is refused instead. The tool must return any error
// unchanged, because one of the errors carries the question to the client, which then
// repeats the call. So a tool calls Confirm only once, before it changes anything.
func (c *Call) Confirm(ctx context.Context, argument string, q Question) error {
	switch {
	case q.Name == "":
		return errors.New("bug: a question has no name")
	case c.unconfirmed:
		return nil
	case c.dialog == nil && c.requireElicitation:
		return &refusal{OutcomeNeedsInput, "nothing was done: an administrator requires that the user confirms this in a form, which this client cannot show; " +
			"use a client that supports elicitation, or let the user do it with kubectl. The question is: " + q.Text}
	case c.dialog != nil:
		return c.dialog.confirm(ctx, q)
	case argument == q.Name:
		return nil
	case argument != "":
		return &refusal{OutcomeNeedsInput, fmt.Sprintf("nothing was done: confirm is %q and must be %q, which the user must agree to: %s", argument, q.Name, q.Text)}
	default:
		return &refusal{OutcomeNeedsInput, fmt.Sprintf("nothing was done yet: ask the user %q and, only if they agree, call again with confirm: %q", q.Text, q.Name)}
	}
}

// refusal is an error whose text is sent to the client unchanged.
type refusal struct{ outcome, text string }

func (r *refusal) Error() string { return r.text }

// Refuse returns an error with this outcome. Its text is sent to the client, with addresses
// and secrets removed.
func Refuse(outcome, text string) error { return &refusal{outcome, scrub(text)} }

// asking is the error of a call that continues once the user has answered a question.
type asking struct {
	question Question
	state    string
}

func (a *asking) Error() string { return "the user must answer first" }

// result returns the result that carries the question. For clients of older protocol
// revisions, the SDK sends the question as an elicitation request and calls the tool again
// with the answer.
func (a *asking) result() *mcp.CallToolResult {
	return &mcp.CallToolResult{
		InputRequests: mcp.InputRequestMap{confirmField: &mcp.ElicitParams{
			Mode:    "form",
			Message: a.question.Text,
			RequestedSchema: &jsonschema.Schema{
				Type: "object",
				Properties: map[string]*jsonschema.Schema{
					confirmField: {Type: "boolean", Title: "Do it", Description: "Whether this may be done to " + a.question.Name},
				},
				Required: []string{confirmField},
			},
		}},
		RequestState: a.state,
	}
}

// dialog asks the user of a client that supports elicitation.
type dialog struct {
	states  *confirm.States
	subject confirm.Subject
	// state and response are the requestState and the answer in this request, if any.
	state    string
	response mcp.InputResponse
}

// newDialog returns nil if the client does not support form elicitation. arguments is the
// canonical JSON of the tool's arguments.
func newDialog(ctx context.Context, states *confirm.States, req *mcp.CallToolRequest, arguments json.RawMessage) *dialog {
	if states == nil || !canAsk(req.ClientCapabilities()) {
		return nil
	}
	return &dialog{
		states:   states,
		subject:  confirm.Subject{User: callers.NameOf(ctx), Tool: req.Params.Name, Arguments: withoutConfirmation(arguments)},
		state:    req.Params.RequestState,
		response: req.Params.InputResponses[confirmField],
	}
}

// canAsk reports whether the client supports form elicitation. A client that declares
// elicitation without a mode supports forms, the only mode in older revisions of the
// protocol.
func canAsk(capabilities *mcp.ClientCapabilities) bool {
	if capabilities == nil || capabilities.Elicitation == nil {
		return false
	}
	return capabilities.Elicitation.Form != nil || capabilities.Elicitation.URL == nil
}

// withoutConfirmation returns the arguments without the argument confirm, which a client
// with elicitation may omit.
func withoutConfirmation(arguments json.RawMessage) []byte {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(arguments, &fields); err != nil {
		return arguments
	}
	delete(fields, confirmField)
	raw, err := json.Marshal(fields)
	if err != nil {
		return arguments
	}
	return raw
}

func (d *dialog) confirm(ctx context.Context, q Question) error {
	subject := d.subject
	subject.Question = q.Name + " " + string(q.UID)
	if d.state != "" {
		err := d.states.Check(ctx, d.state, subject)
		switch {
		case errors.Is(err, confirm.ErrForged):
			// The protocol requires a JSON-RPC error here, not a tool result.
			return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "nothing was done: requestState was not issued for this call; call again without requestState and inputResponses"}
		case errors.Is(err, confirm.ErrExpired):
			return &refusal{OutcomeTimeout, fmt.Sprintf("nothing was done: the answer came more than %s after the question; call again to be asked again", confirm.Lifetime)}
		case err != nil:
			return cannotAsk(ctx, err)
		}
		if answer, ok := d.response.(*mcp.ElicitResult); ok {
			return agreement(answer)
		}
	}
	state, err := d.states.Issue(ctx, subject)
	if err != nil {
		return cannotAsk(ctx, err)
	}
	return &asking{question: q, state: state}
}

// cannotAsk returns the refusal for the case that the signing key is not available.
func cannotAsk(ctx context.Context, err error) error {
	log.FromContext(ctx).Error(err, "A question to a user could not be sealed or its seal not be checked")
	return &refusal{OutcomeUnavailable, "nothing was done: the user cannot be asked now; try again in 5 s"}
}

// agreement returns nil only if the user explicitly accepted.
func agreement(answer *mcp.ElicitResult) error {
	if answer.Action == "accept" && answer.Content[confirmField] == true {
		return nil
	}
	return &refusal{OutcomeDeclined, "nothing was done: the user did not agree; do not try it another way unless they ask for it"}
}
