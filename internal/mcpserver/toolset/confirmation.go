package toolset

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
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
			"use a client that supports elicitation in protocol 2026-07-28, or let the user do it with kubectl. The question is: " + q.Text}
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

// result returns the result that carries the question. The client calls the tool again with
// the answer.
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
	states  *Confirmations
	subject confirmationSubject
	// state and response are the requestState and the answer in this request, if any.
	state    string
	response mcp.InputResponse
}

// newDialog returns nil if the client does not support form elicitation. It removes confirm
// from the arguments of the tool, because a client with elicitation may omit it.
func newDialog(ctx context.Context, states *Confirmations, req *mcp.CallToolRequest, arguments map[string]any) *dialog {
	if states == nil || !canAsk(req.ClientCapabilities()) {
		return nil
	}
	delete(arguments, confirmField)
	// It cannot fail, because the arguments were decoded from JSON.
	canonical, _ := json.Marshal(arguments)
	return &dialog{
		states:   states,
		subject:  confirmationSubject{User: callers.NameOf(ctx), Tool: req.Params.Name, Arguments: canonical},
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

func (d *dialog) confirm(ctx context.Context, q Question) error {
	subject := d.subject
	subject.Question = q.Name + " " + string(q.UID)
	if d.state != "" {
		err := d.states.Check(ctx, d.state, subject)
		switch {
		case errors.Is(err, errForgedConfirmation):
			// The protocol requires a JSON-RPC error here, not a tool result.
			return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "nothing was done: requestState was not issued for this call; call again without requestState and inputResponses"}
		case errors.Is(err, errExpiredConfirmation):
			return &refusal{OutcomeTimeout, fmt.Sprintf("nothing was done: the answer came more than %s after the question; call again to be asked again", confirmationLifetime)}
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
	log.FromContext(ctx).Error(err, "Could not sign a confirmation request, or verify its signature")
	return &refusal{OutcomeUnavailable, "nothing was done: the user cannot be asked to confirm now; try again in 5 s"}
}

// agreement returns nil only if the user explicitly accepted.
func agreement(answer *mcp.ElicitResult) error {
	if answer.Action == "accept" && answer.Content[confirmField] == true {
		return nil
	}
	return &refusal{OutcomeDeclined, "nothing was done: the user did not agree; do not try it another way unless they ask for it"}
}

const (
	// confirmationLifetime is how long an answer is valid after its question.
	confirmationLifetime = 10 * time.Minute

	// stateVersion is the first byte of a state. It changes with the format.
	stateVersion = 1
	// minKeyBytes is the size of the hash. A shorter key would weaken it.
	minKeyBytes = sha256.Size
	// headerBytes is the size of the version and the expiry, in seconds since 1970.
	headerBytes = 1 + 8
	stateBytes  = headerBytes + sha256.Size
)

var (
	// errForgedConfirmation means that the state was not issued for this subject.
	errForgedConfirmation = errors.New("the state was not issued for this call")
	// errExpiredConfirmation means that the state was issued for this subject too long ago.
	errExpiredConfirmation = errors.New("the state is too old")
)

// confirmationSubject is what a state is valid for.
type confirmationSubject struct {
	// User is the name of the caller.
	User string
	Tool string
	// Arguments are the arguments of the call as canonical JSON, without the confirmation.
	Arguments []byte
	// Question distinguishes the questions of a tool.
	Question string
}

// Confirmations issues and checks states. It is safe for concurrent use.
type Confirmations struct {
	key   func(context.Context) ([]byte, error)
	clock clock.PassiveClock
}

// NewConfirmations returns Confirmations that sign with the key of the caller in the context,
// which has at least 32 bytes and is the same on all replicas.
func NewConfirmations(key func(context.Context) ([]byte, error), clk clock.PassiveClock) *Confirmations {
	return &Confirmations{key: key, clock: clk}
}

// Issue returns the state for a question. It fails only if the key is not available.
func (s *Confirmations) Issue(ctx context.Context, subject confirmationSubject) (string, error) {
	state := make([]byte, headerBytes, stateBytes)
	state[0] = stateVersion
	binary.BigEndian.PutUint64(state[1:], uint64(s.clock.Now().Add(confirmationLifetime).Unix()))
	seal, err := s.seal(ctx, state, subject)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(append(state, seal...)), nil
}

// Check returns nil if the state was issued for the subject and has not expired. Otherwise
// it returns errForgedConfirmation, errExpiredConfirmation, or the error of reading the key.
func (s *Confirmations) Check(ctx context.Context, state string, subject confirmationSubject) error {
	// Check the length of the text, because the decoder ignores line breaks.
	if len(state) != base64.RawURLEncoding.EncodedLen(stateBytes) {
		return errForgedConfirmation
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(state)
	if err != nil || len(raw) != stateBytes || raw[0] != stateVersion {
		return errForgedConfirmation
	}
	header, seal := raw[:headerBytes], raw[headerBytes:]
	want, err := s.seal(ctx, header, subject)
	if err != nil {
		return err
	}
	if !hmac.Equal(seal, want) {
		return errForgedConfirmation
	}
	if uint64(s.clock.Now().Unix()) >= binary.BigEndian.Uint64(header[1:]) {
		return errExpiredConfirmation
	}
	return nil
}

// seal returns the HMAC over a header and a subject. The length of each part is included,
// so that different subjects never produce the same input.
func (s *Confirmations) seal(ctx context.Context, header []byte, subject confirmationSubject) ([]byte, error) {
	key, err := s.key(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the key that seals questions: %w", err)
	}
	if len(key) < minKeyBytes {
		return nil, fmt.Errorf("the key that seals questions has %d bytes and needs at least %d", len(key), minKeyBytes)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(header)
	for _, part := range [][]byte{[]byte(subject.User), []byte(subject.Tool), subject.Arguments, []byte(subject.Question)} {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write(part)
	}
	return mac.Sum(nil), nil
}
