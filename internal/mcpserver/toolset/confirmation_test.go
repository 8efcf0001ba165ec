package toolset

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

type deletion struct {
	Name    string `json:"name"`
	Force   bool   `json:"force,omitempty"`
	Confirm string `json:"confirm,omitempty"`
}

// confirmServer is a server with a destructive tool, and the number of its executions.
type confirmServer struct {
	*server
	clock   *testingclock.FakeClock
	deleted int
	// uid is the UID of the object, whatever its name.
	uid types.UID
}

func newConfirmServer(t *testing.T, sealed bool, change ...func(*Env)) *confirmServer {
	t.Helper()
	s := &confirmServer{clock: testingclock.NewFakeClock(time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC))}
	set := &Set{}
	Add(set, Definition{Name: "delete", Effect: Destroys}, func(ctx context.Context, call *Call, in deletion) (nothing, error) {
		if err := call.Confirm(ctx, in.Confirm, Question{Name: in.Name, UID: s.uid, Text: "Delete " + in.Name + "?"}); err != nil {
			return nothing{}, err
		}
		s.deleted++
		return nothing{}, nil
	})
	env := Env{Kube: fakeKube(t, interceptor.Funcs{}), Clock: s.clock}
	if sealed {
		env.Confirmer = states(s.clock)
	}
	for _, c := range change {
		c(&env)
	}
	s.server = serve(set, env)
	return s
}

// asked is a client whose user gives this answer. It records the question.
type asked struct {
	answer   *mcp.ElicitResult
	question *mcp.ElicitParams
}

func (a *asked) options() *mcp.ClientOptions {
	return &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		a.question = req.Params
		return a.answer, nil
	}}
}

func TestWhoCanBeAskedIsAsked(t *testing.T) {
	yes := &mcp.ElicitResult{Action: "accept", Content: map[string]any{confirmField: true}}
	tests := map[string]struct {
		answer  *mcp.ElicitResult
		outcome string
	}{
		"yes":         {yes, OutcomeOK},
		"a clear no":  {&mcp.ElicitResult{Action: "accept", Content: map[string]any{confirmField: false}}, OutcomeDeclined},
		"declined":    {&mcp.ElicitResult{Action: "decline"}, OutcomeDeclined},
		"closed":      {&mcp.ElicitResult{Action: "cancel"}, OutcomeDeclined},
		"no, and yes": {&mcp.ElicitResult{Action: "decline", Content: map[string]any{confirmField: true}}, OutcomeDeclined},
	}
	for name, tc := range tests {
		for _, revision := range []string{modern, legacy} {
			t.Run(name+" "+revision, func(t *testing.T) {
				confirmServer, user := newConfirmServer(t, true), &asked{answer: tc.answer}
				// The argument confirm is not sufficient: the model could have invented it.
				text, isError := say(t, confirmServer.connect(t, revision, user.options()), &mcp.CallToolParams{Name: "delete", Arguments: deletion{Name: "x", Confirm: "x"}})
				if user.question == nil || user.question.Message != "Delete x?" || user.question.Mode != "form" {
					t.Fatalf("the user was asked %+v", user.question)
				}
				agreed := tc.outcome == OutcomeOK
				if isError == agreed || (confirmServer.deleted == 1) != agreed || confirmServer.outcome.String() != tc.outcome {
					t.Errorf("deleted %d times, error %t, outcome %s: %s", confirmServer.deleted, isError, confirmServer.outcome, text)
				}
				if !agreed && text != "nothing was done: the user did not agree; do not try it another way unless they ask for it" {
					t.Errorf("the answer is %q", text)
				}
			})
		}
	}
}

func TestWhoCannotBeAskedMustNameTheObject(t *testing.T) {
	clients := map[string]struct {
		options *mcp.ClientOptions
		sealed  bool
	}{
		"a client without forms":     {nil, true},
		"a client with only links":   {&mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}}}, true},
		"a server without questions": {(&asked{}).options(), false},
	}
	arguments := map[string]struct{ confirm, says, outcome string }{
		"none":       {"", `nothing was done yet: ask the user "Delete x?" and, only if they agree, call again with confirm: "x"`, OutcomeNeedsInput},
		"wrong":      {"yes", `nothing was done: confirm is "yes" and must be "x", which the user must agree to: Delete x?`, OutcomeNeedsInput},
		"the object": {"x", mark + "}", OutcomeOK},
	}
	for clientName, c := range clients {
		for argumentName, tc := range arguments {
			for _, revision := range []string{modern, legacy} {
				t.Run(clientName+" "+argumentName+" "+revision, func(t *testing.T) {
					confirmServer := newConfirmServer(t, c.sealed)
					text, isError := say(t, confirmServer.connect(t, revision, c.options), &mcp.CallToolParams{Name: "delete", Arguments: deletion{Name: "x", Confirm: tc.confirm}})
					agreed := tc.outcome == OutcomeOK
					if text != tc.says || isError == agreed || (confirmServer.deleted == 1) != agreed || confirmServer.outcome.String() != tc.outcome {
						t.Errorf("deleted %d times, error %t, outcome %s:\n%s\nwant\n%s", confirmServer.deleted, isError, confirmServer.outcome, text, tc.says)
					}
				})
			}
		}
	}
}

// TestElicitationIsRequired checks that, with RequireElicitation, the argument confirm is
// rejected and clients with elicitation work as before.
func TestElicitationIsRequired(t *testing.T) {
	require := func(env *Env) { env.RequireElicitation = true }
	for _, revision := range []string{modern, legacy} {
		confirmServer := newConfirmServer(t, true, require)
		text, isError := say(t, confirmServer.connect(t, revision, nil), &mcp.CallToolParams{Name: "delete", Arguments: deletion{Name: "x", Confirm: "x"}})
		if !isError || confirmServer.deleted != 0 || !strings.Contains(text, "use a client that supports elicitation") || !strings.Contains(text, "Delete x?") {
			t.Errorf("%s: deleted %d times: %s", revision, confirmServer.deleted, text)
		}
		user := &asked{answer: &mcp.ElicitResult{Action: "accept", Content: map[string]any{confirmField: true}}}
		if text, isError := say(t, confirmServer.connect(t, revision, user.options()), &mcp.CallToolParams{Name: "delete", Arguments: deletion{Name: "x"}}); isError || confirmServer.deleted != 1 {
			t.Errorf("%s: a client that can ask: deleted %d times: %s", revision, confirmServer.deleted, text)
		}
	}
}

// manual returns a client with elicitation that leaves repeated calls to the test.
func (s *confirmServer) manual(t *testing.T) *mcp.ClientSession {
	t.Helper()
	options := (&asked{}).options()
	options.MultiRoundTrip = &mcp.MultiRoundTripOptions{Disabled: true}
	return s.connect(t, modern, options)
}

func question(t *testing.T, session *mcp.ClientSession, params *mcp.CallToolParams) *mcp.CallToolResult {
	t.Helper()
	result, err := session.CallTool(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := result.InputRequests[confirmField].(*mcp.ElicitParams); !ok || len(result.InputRequests) != 1 || len(result.Content) != 0 || result.IsError || result.RequestState == "" {
		t.Fatalf("the answer is no question: %+v", result)
	}
	return result
}

var agreed = mcp.InputResponseMap{confirmField: &mcp.ElicitResult{Action: "accept", Content: map[string]any{confirmField: true}}}

func TestAnAnswerCountsForItsQuestion(t *testing.T) {
	confirmServer := newConfirmServer(t, true)
	session := confirmServer.manual(t)
	first := question(t, session, &mcp.CallToolParams{Name: "delete", Arguments: deletion{Name: "x"}})
	if confirmServer.outcome.String() != OutcomeNeedsInput || confirmServer.deleted != 0 {
		t.Fatalf("deleted %d times, outcome %s", confirmServer.deleted, confirmServer.outcome)
	}
	schema := first.InputRequests[confirmField].(*mcp.ElicitParams).RequestedSchema.(map[string]any)
	if diff := cmp.Diff([]any{confirmField}, schema["required"]); diff != "" {
		t.Errorf("the form (-want +got):\n%s", diff)
	}
	// Other input responses and the argument confirm are ignored.
	responses := mcp.InputResponseMap{"more": &mcp.ElicitResult{Action: "decline"}, confirmField: agreed[confirmField]}
	if _, isError := say(t, session, &mcp.CallToolParams{Name: "delete", Arguments: deletion{Name: "x", Confirm: "x"}, RequestState: first.RequestState, InputResponses: responses}); isError || confirmServer.deleted != 1 {
		t.Errorf("deleted %d times, error %t", confirmServer.deleted, isError)
	}
}

func TestAnAnswerWithoutItsQuestionIsAskedFor(t *testing.T) {
	for name, change := range map[string]func(*mcp.CallToolParams){
		"nothing answered":        func(p *mcp.CallToolParams) { p.InputResponses = nil },
		"something else answered": func(p *mcp.CallToolParams) { p.InputResponses = mcp.InputResponseMap{"wrong": agreed[confirmField]} },
		"not what was asked": func(p *mcp.CallToolParams) {
			p.InputResponses = mcp.InputResponseMap{confirmField: &mcp.ListRootsResult{}} //nolint:staticcheck // A client may still send it.
		},
		"an answer nobody asked for": func(p *mcp.CallToolParams) { p.RequestState = "" },
	} {
		t.Run(name, func(t *testing.T) {
			confirmServer := newConfirmServer(t, true)
			session := confirmServer.manual(t)
			params := &mcp.CallToolParams{Name: "delete", Arguments: deletion{Name: "x"}, InputResponses: agreed}
			params.RequestState = question(t, session, params).RequestState
			change(params)
			question(t, session, params)
			if confirmServer.deleted != 0 || confirmServer.outcome.String() != OutcomeNeedsInput {
				t.Errorf("deleted %d times, outcome %s", confirmServer.deleted, confirmServer.outcome)
			}
		})
	}
}

func TestAStateOfAnotherCallIsRefused(t *testing.T) {
	for name, change := range map[string]func(*confirmServer, *mcp.CallToolParams){
		"changed":                         func(_ *confirmServer, p *mcp.CallToolParams) { p.RequestState += "-TAMPERED" },
		"another object":                  func(_ *confirmServer, p *mcp.CallToolParams) { p.Arguments = deletion{Name: "y"} },
		"other arguments":                 func(_ *confirmServer, p *mcp.CallToolParams) { p.Arguments = deletion{Name: "x", Force: true} },
		"another object of the same name": func(s *confirmServer, _ *mcp.CallToolParams) { s.uid = "2" },
		"another user":                    func(s *confirmServer, _ *mcp.CallToolParams) { s.user = "mallory" },
	} {
		t.Run(name, func(t *testing.T) {
			confirmServer := newConfirmServer(t, true)
			session := confirmServer.manual(t)
			params := &mcp.CallToolParams{Name: "delete", Arguments: deletion{Name: "x"}}
			params.RequestState, params.InputResponses = question(t, session, params).RequestState, agreed
			change(confirmServer, params)
			_, err := session.CallTool(t.Context(), params)
			var refused *jsonrpc.Error
			if !errors.As(err, &refused) || refused.Code != jsonrpc.CodeInvalidParams || !strings.Contains(refused.Message, "call again without requestState") {
				t.Errorf("the answer is %v", err)
			}
			if confirmServer.deleted != 0 || confirmServer.outcome.String() != OutcomeInvalid {
				t.Errorf("deleted %d times, outcome %s", confirmServer.deleted, confirmServer.outcome)
			}
		})
	}
}

// The question of a tool can depend on more than its arguments.
func TestAnAnswerToOneQuestionIsNoneToAnother(t *testing.T) {
	clk := testingclock.NewFakeClock(time.Now())
	d := &dialog{states: states(clk), subject: confirmationSubject{User: "alice", Tool: "delete"}, response: agreed[confirmField]}
	var first *asking
	if err := d.confirm(t.Context(), Question{Name: "x"}); !errors.As(err, &first) {
		t.Fatal(err)
	}
	d.state = first.state
	if err := d.confirm(t.Context(), Question{Name: "x"}); err != nil {
		t.Errorf("the answer is refused: %v", err)
	}
	var refused *jsonrpc.Error
	if err := d.confirm(t.Context(), Question{Name: "y"}); !errors.As(err, &refused) {
		t.Errorf("the answer counts for another question: %v", err)
	}
}

func TestALateAnswerIsRefused(t *testing.T) {
	confirmServer := newConfirmServer(t, true)
	session := confirmServer.manual(t)
	params := &mcp.CallToolParams{Name: "delete", Arguments: deletion{Name: "x"}}
	params.RequestState, params.InputResponses = question(t, session, params).RequestState, agreed
	confirmServer.clock.Step(confirmationLifetime)
	text, isError := say(t, session, params)
	if text != "nothing was done: the answer came more than 10m0s after the question; call again to be asked again" || !isError || confirmServer.deleted != 0 || confirmServer.outcome.String() != OutcomeTimeout {
		t.Errorf("deleted %d times, error %t, outcome %s: %s", confirmServer.deleted, isError, confirmServer.outcome, text)
	}
}

func TestWithoutAKeyNothingIsDone(t *testing.T) {
	set := &Set{}
	Add(set, Definition{Name: "delete", Effect: Destroys}, func(ctx context.Context, call *Call, in deletion) (nothing, error) {
		return nothing{}, call.Confirm(ctx, in.Confirm, Question{Name: in.Name, Text: "Delete?"})
	})
	clk := testingclock.NewFakeClock(time.Now())
	served := serve(set, Env{Kube: fakeKube(t, interceptor.Funcs{}), Clock: clk, Confirmer: NewConfirmations(func(context.Context) ([]byte, error) {
		return nil, errors.New("secrets \"key\" not found")
	}, clk)})
	text, isError := say(t, served.connect(t, modern, (&asked{}).options()), &mcp.CallToolParams{Name: "delete", Arguments: deletion{Name: "x", Confirm: "x"}})
	if text != "nothing was done: the user cannot be asked to confirm now; try again in 5 s" || !isError || served.outcome.String() != OutcomeUnavailable {
		t.Errorf("error %t, outcome %s: %s", isError, served.outcome, text)
	}
}

func TestAQuestionWithoutANameIsNeverAgreedTo(t *testing.T) {
	if err := (&Call{}).Confirm(t.Context(), "", Question{Text: "Delete everything?"}); err == nil {
		t.Error("no argument agrees to a question without a name")
	}
}

func TestACallInATestCanConfirm(t *testing.T) {
	call := &Call{}
	if err := call.Confirm(t.Context(), "x", Question{Name: "x", Text: "Delete x?"}); err != nil {
		t.Error(err)
	}
	if err := call.Confirm(t.Context(), "X", Question{Name: "x", Text: "Delete x?"}); err == nil {
		t.Error("another name agrees too")
	}
	call.Progress(t.Context(), "nobody hears this")
}
