package toolset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

type podArguments struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Phase     string `json:"phase,omitempty" enum:"Running,Failed"`
	Limit     int    `json:"limit,omitempty"`
	Replicas  *int32 `json:"replicas" minimum:"0"`

	All    bool              `json:"all,omitempty"`
	IDs    []string          `json:"ids,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
}

type podAnswer struct {
	Items  []item              `json:"items"`
	Labels map[string]string   `json:"labels"`
	Sorted map[string][]string `json:"sorted,omitempty"`
	First  *item               `json:"first,omitempty"`
}

type item struct {
	Name   string   `json:"name"`
	Ports  []int    `json:"ports"`
	Parts  []part   `json:"parts,omitempty"`
	Phases []string `json:"phases,omitempty"`
}

type part struct {
	Name  string `json:"name"`
	Ports []int  `json:"ports"`
}

// ask adds a tool with this function and calls it once.
func ask(t *testing.T, arguments any, run func(context.Context, *Call, podArguments) (podAnswer, error)) (text string, isError bool, outcome string) {
	t.Helper()
	s := &Set{}
	Add(s, Definition{Name: "ask", Effect: Reads}, run)
	served := serve(s, Env{Kube: fakeKube(t, interceptor.Funcs{})})
	text, isError = say(t, served.connect(t, modern, nil), &mcp.CallToolParams{Name: "ask", Arguments: arguments})
	return text, isError, served.outcome.String()
}

func TestWrongArgumentsAreSentences(t *testing.T) {
	const namespaced = `"namespace":"coder","name":"x"`
	tests := map[string]struct{ arguments, want string }{
		"none":                   {`{}`, `argument "namespace" is required`},
		"one missing":            {`{"namespace":"coder"}`, `argument "name" is required`},
		"an unknown one":         {`{` + namespaced + `,"owner":"alice"}`, `there is no argument "owner"; there are: namespace, name, phase, limit, replicas, all, ids, labels`},
		"other letters":          {`{"Namespace":"coder","namespace":"coder","name":"x"}`, `there is no argument "Namespace"; there are: namespace, name, phase, limit, replicas, all, ids, labels`},
		"a wrong type":           {`{` + namespaced + `,"limit":"ten"}`, `argument "limit" must be an integer, not "ten"`},
		"a fraction":             {`{` + namespaced + `,"limit":1.5}`, `argument "limit" must be an integer, not 1.5`},
		"too much":               {`{` + namespaced + `,"limit":201}`, `argument "limit" must be at most 200, not 201`},
		"null":                   {`{"namespace":"coder","name":null}`, `argument "name" must be a string, not null`},
		"none of the values":     {`{` + namespaced + `,"phase":"Lost"}`, `argument "phase" must be one of Running Failed, not "Lost"`},
		"too little":             {`{` + namespaced + `,"replicas":-1}`, `argument "replicas" must be at least 0, not -1`},
		"more than the type has": {`{` + namespaced + `,"replicas":3000000000}`, `argument "replicas" cannot be number 3000000000`},
		"no map":                 {`{` + namespaced + `,"labels":"a=b"}`, `argument "labels" must be an object, not "a=b"`},
		"no flag":                {`{` + namespaced + `,"all":"yes"}`, `argument "all" must be true or false, not "yes"`},
		"no list":                {`{` + namespaced + `,"ids":{}}`, `argument "ids" must be an array, not {}`},
		"too long to repeat":     {`{` + namespaced + `,"all":"` + strings.Repeat("é", 100) + `"}`, `argument "all" must be true or false, not "` + strings.Repeat("é", 79) + `…`},
		"wrong below":            {`{` + namespaced + `,"labels":{"a":{"b":1}}}`, `argument "labels.a" must be a string, not {"b":1}`},
		"null below":             {`{` + namespaced + `,"labels":{"a":null}}`, `argument "labels.a" must be a string, not null`},
		"wrong in a list":        {`{` + namespaced + `,"ids":["a",["b"]]}`, `argument "ids[1]" must be a string, not ["b"]`},
		"a list as an object":    {`{` + namespaced + `,"labels":"[1]"}`, `argument "labels" must be an object, not "[1]"`},
		"a list that is cut":     {`{` + namespaced + `,"ids":"[\"a\","}`, `argument "ids" must be an array, not "[\"a\","`},
		"a text too long":        {`{` + namespaced + `,"limit":"1e400"}`, `argument "limit" must be an integer, not "1e400"`},
		"a fraction as a text":   {`{` + namespaced + `,"limit":"1.5"}`, `argument "limit" must be an integer, not 1.5`},
		"a name too long":        {`{` + namespaced + `,"` + strings.Repeat("a", 100) + `":1}`, `there is no argument "` + strings.Repeat("a", 80) + `…"; there are: namespace, name, phase, limit, replicas, all, ids, labels`},
		"a list":                 {`[]`, `arguments must be a JSON object`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, isError, outcome := ask(t, json.RawMessage(tc.arguments), func(context.Context, *Call, podArguments) (podAnswer, error) {
				t.Error("the tool ran")
				return podAnswer{}, nil
			})
			if got != tc.want || !isError || outcome != OutcomeInvalid {
				t.Errorf("the answer is\n%s\nwant\n%s\nerror %t, outcome %s", got, tc.want, isError, outcome)
			}
		})
	}
}

// Errors quote the client's input, and the model reads them.
func TestAnErrorIsNotLong(t *testing.T) {
	for name, arguments := range map[string]string{
		"of the schema": `{"namespace":"coder","name":"x","labels":{"a":["` + strings.Repeat("é", 50_000) + `"]}}`,
		"of the tool":   `{"namespace":"coder","name":"` + strings.Repeat("é", 50_000) + `"}`,
	} {
		got, isError, outcome := ask(t, json.RawMessage(arguments), func(_ context.Context, _ *Call, in podArguments) (podAnswer, error) {
			return podAnswer{}, UsageError("there is no " + in.Name)
		})
		if len(got) > maxSentence+len("…") || !strings.HasSuffix(got, "é…") || !isError || outcome != OutcomeInvalid {
			t.Errorf("%s: the answer has %d bytes, error %t, outcome %s", name, len(got), isError, outcome)
		}
	}
}

func TestDefaultsAreFilledIn(t *testing.T) {
	for arguments, want := range map[string]podArguments{
		`{"namespace":"coder","name":"x"}`:             {Namespace: "coder", Name: "x", Limit: defaultLimit},
		`{"namespace":"coder","name":"x","limit":7}`:   {Namespace: "coder", Name: "x", Limit: 7},
		`{"namespace":"coder","name":"x","limit":200}`: {Namespace: "coder", Name: "x", Limit: 200},
	} {
		_, isError, _ := ask(t, json.RawMessage(arguments), func(_ context.Context, _ *Call, in podArguments) (podAnswer, error) {
			if diff := cmp.Diff(want, in); diff != "" {
				t.Errorf("%s (-want +got):\n%s", arguments, diff)
			}
			return podAnswer{}, nil
		})
		if isError {
			t.Errorf("%s is refused", arguments)
		}
	}
}

// Models send these forms; each has one meaning only.
func TestArgumentsOfAnotherTypeAreConverted(t *testing.T) {
	standard := podArguments{Namespace: "coder", Name: "x", Limit: defaultLimit}
	for arguments, want := range map[string]func(in *podArguments){
		`"limit":"7"`: func(in *podArguments) { in.Limit = 7 },
		`"limit":null,"replicas":null,"ids":null`: func(*podArguments) {},
		`"all":"true"`:                               func(in *podArguments) { in.All = true },
		`"all":"False"`:                              func(*podArguments) {},
		`"replicas":"3.0"`:                           func(in *podArguments) { in.Replicas = ptr.To[int32](3) },
		`"labels":"{\"a\":\"b\",\"c\":1}"`:           func(in *podArguments) { in.Labels = map[string]string{"a": "b", "c": "1"} },
		`"labels":{"a":1,"b":true,"c":1.50,"d":"e"}`: func(in *podArguments) { in.Labels = map[string]string{"a": "1", "b": "true", "c": "1.50", "d": "e"} },
		`"labels":{"a":12345678901234567890}`:        func(in *podArguments) { in.Labels = map[string]string{"a": "12345678901234567890"} },
		`"labels":{"a":"null","b":"[1]"}`:            func(in *podArguments) { in.Labels = map[string]string{"a": "null", "b": "[1]"} },
		`"ids":"a"`:                                  func(in *podArguments) { in.IDs = []string{"a"} },
		`"ids":"[\"a\",2]"`:                          func(in *podArguments) { in.IDs = []string{"a", "2"} },
		`"ids":[1]`:                                  func(in *podArguments) { in.IDs = []string{"1"} },
	} {
		wanted := standard
		want(&wanted)
		text, isError, _ := ask(t, json.RawMessage(`{"namespace":"coder","name":"x",`+arguments+`}`), func(_ context.Context, _ *Call, in podArguments) (podAnswer, error) {
			if diff := cmp.Diff(wanted, in); diff != "" {
				t.Errorf("%s (-want +got):\n%s", arguments, diff)
			}
			return podAnswer{}, nil
		})
		if isError {
			t.Errorf("%s is refused: %s", arguments, text)
		}
	}
}

func TestNoArgumentsAreEmptyArguments(t *testing.T) {
	type optional struct {
		Limit int `json:"limit,omitempty"`
	}
	s := &Set{}
	Add(s, Definition{Name: "all", Effect: Reads}, func(_ context.Context, _ *Call, in optional) (nothing, error) {
		if in.Limit != defaultLimit {
			t.Errorf("the limit is %d", in.Limit)
		}
		return nothing{}, nil
	})
	Add(s, Definition{Name: "none", Effect: Reads}, doNothing)
	session := serve(s, Env{Kube: fakeKube(t, interceptor.Funcs{})}).connect(t, modern, nil)
	for _, arguments := range []any{nil, json.RawMessage("null"), json.RawMessage("{}")} {
		for _, name := range []string{"all", "none"} {
			if text, isError := say(t, session, &mcp.CallToolParams{Name: name, Arguments: arguments}); isError {
				t.Errorf("%s with %s answers %s", name, arguments, text)
			}
		}
	}
	if text, _ := say(t, session, &mcp.CallToolParams{Name: "none", Arguments: json.RawMessage(`{"x":1}`)}); text != `there is no argument "x"; this tool takes none` {
		t.Errorf("a needless argument gives %q", text)
	}
}

func TestAnAnswerHasNoNull(t *testing.T) {
	got, _, outcome := ask(t, map[string]any{"namespace": "coder", "name": "<x>"}, func(context.Context, *Call, podArguments) (podAnswer, error) {
		return podAnswer{Items: []item{{Name: "<a>"}, {Name: "b", Parts: []part{{}}}}, Sorted: map[string][]string{"x": nil}, First: &item{}}, nil
	})
	want := mark + `,"items":[{"name":"<a>","ports":[]},{"name":"b","ports":[],"parts":[{"name":"","ports":[]}]}],"labels":{},"sorted":{"x":[]},"first":{"name":"","ports":[]}}`
	if got != want || outcome != OutcomeOK {
		t.Errorf("the answer is\n%s\nwant\n%s\noutcome %s", got, want, outcome)
	}
	got, _, _ = ask(t, map[string]any{"namespace": "coder", "name": "x"}, func(context.Context, *Call, podArguments) (podAnswer, error) { return podAnswer{}, nil })
	if want := mark + `,"items":[],"labels":{}}`; got != want {
		t.Errorf("an empty answer is %s, want %s", got, want)
	}
}

func TestAnAnswerComesTwice(t *testing.T) {
	s := &Set{}
	Add(s, Definition{Name: "ask", Effect: Reads}, func(context.Context, *Call, nothing) (podAnswer, error) {
		return podAnswer{Items: []item{{Name: "a"}}}, nil
	})
	result, err := serve(s, Env{Kube: fakeKube(t, interceptor.Funcs{})}).connect(t, legacy, nil).CallTool(t.Context(), &mcp.CallToolParams{Name: "ask"})
	if err != nil {
		t.Fatal(err)
	}
	structured, err := json.Marshal(result.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	var fromText any
	if err := json.Unmarshal([]byte(result.Content[0].(*mcp.TextContent).Text), &fromText); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(result.StructuredContent, fromText); diff != "" || len(structured) < 10 {
		t.Errorf("the text is not the structured content %s (-structured +text):\n%s", structured, diff)
	}
}

func TestAnAnswerHasABound(t *testing.T) {
	got, isError, outcome := ask(t, map[string]any{"namespace": "coder", "name": "x"}, func(context.Context, *Call, podArguments) (podAnswer, error) {
		return podAnswer{Items: []item{{Name: strings.Repeat("x", maxAnswerBytes)}}}, nil
	})
	if want := "the result has 3072 KiB, and at most 3072 KiB are sent; request less data"; got != want || !isError || outcome != OutcomeInvalid {
		t.Errorf("the answer is %.200q, error %t, outcome %s", got, isError, outcome)
	}
}

func TestAnErrorOfAToolIsASentence(t *testing.T) {
	got, isError, outcome := ask(t, map[string]any{"namespace": "coder", "name": "x"}, func(context.Context, *Call, podArguments) (podAnswer, error) {
		return podAnswer{Items: []item{{Name: "half"}}}, errors.New("open /var/run/secrets: dial tcp 10.0.0.1:443")
	})
	if got != "internal error; see the log of the server for details" || !isError || outcome != OutcomeError {
		t.Errorf("the answer is %q, error %t, outcome %s", got, isError, outcome)
	}
}

func TestAFailureIsAnErrorWithTheAnswer(t *testing.T) {
	s := &Set{}
	Add(s, Definition{Name: "ask", Effect: Writes}, func(context.Context, *Call, nothing) (podAnswer, error) {
		return podAnswer{Items: []item{}}, fmt.Errorf("waiting: %w", Failed("the build failed:\nhttps://10.0.0.1/x; get_build_logs shows the whole log"))
	})
	served := serve(s, Env{Kube: fakeKube(t, interceptor.Funcs{})})
	result, err := served.connect(t, modern, nil).CallTool(t.Context(), &mcp.CallToolParams{Name: "ask"})
	if err != nil || len(result.Content) != 2 {
		t.Fatalf("the result is %+v, %v", result, err)
	}
	said, answer := result.Content[0].(*mcp.TextContent).Text, result.Content[1].(*mcp.TextContent).Text
	if !result.IsError || served.outcome.String() != OutcomeFailed || said != "waiting: the build failed: (address) get_build_logs shows the whole log" ||
		!strings.HasPrefix(answer, mark) || !strings.HasSuffix(answer, `,"items":[],"labels":{}}`) {
		t.Errorf("error %t, outcome %s: %s, %s", result.IsError, served.outcome, said, answer)
	}
}

// mark is the beginning of each answer.
const mark = `{"untrusted":"` + Untrusted + `"`

func TestAnswersAreMarked(t *testing.T) {
	s := &Set{}
	Add(s, Definition{Name: "all", Effect: Reads}, func(context.Context, *Call, nothing) (podAnswer, error) { return podAnswer{}, nil })
	Add(s, Definition{Name: "none", Effect: Reads}, doNothing)
	session := serve(s, Env{Kube: fakeKube(t, interceptor.Funcs{})}).connect(t, modern, nil)
	for name, want := range map[string]string{"all": mark + `,"items":[],"labels":{}}`, "none": mark + "}"} {
		if got, isError := say(t, session, &mcp.CallToolParams{Name: name}); got != want || isError {
			t.Errorf("%s answers %s", name, got)
		}
	}
}

func TestSchemasAreSmallAndHaveNoNull(t *testing.T) {
	s := &Set{}
	Add(s, Definition{Name: "ask", Effect: Reads}, func(context.Context, *Call, podArguments) (podAnswer, error) { return podAnswer{}, nil })
	list, err := serve(s, Env{Kube: fakeKube(t, interceptor.Funcs{})}).connect(t, modern, nil).ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for what, tc := range map[string]struct {
		schema any
		want   string
	}{
		"input": {list.Tools[0].InputSchema, `{"properties":{"all":{"type":"boolean"},"ids":{"items":{"type":"string"},"type":"array"},` +
			`"labels":{"additionalProperties":{"type":"string"},"type":"object"},"limit":{"default":50,"maximum":200,"type":"integer"},` +
			`"name":{"type":"string"},"namespace":{"type":"string"},"phase":{"enum":["Running","Failed"],"type":"string"},"replicas":{"minimum":0,"type":"integer"}},` +
			`"required":["namespace","name"],"type":"object"}`},
		"output": {list.Tools[0].OutputSchema, `{"type":"object"}`},
	} {
		got, err := json.Marshal(tc.schema)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

func TestAnAnswerThatCouldHoldNullIsABug(t *testing.T) {
	type deep struct {
		Rows []struct {
			Next *item `json:"next"`
		} `json:"rows"`
	}
	defer func() {
		if p, _ := recover().(string); !strings.Contains(p, "Next") {
			t.Errorf("Add panics with %q, want the name of the field", p)
		}
	}()
	Add(&Set{}, Definition{Name: "ask"}, func(context.Context, *Call, nothing) (deep, error) { return deep{}, nil })
}

type told struct {
	Progress float64
	Message  string
}

// heard returns a progress and the list of its notifications.
func heard(clk *testingclock.FakeClock) (*progress, *[]told) {
	var all []told
	return &progress{token: "t", clock: clk, notify: func(_ context.Context, p *mcp.ProgressNotificationParams) error {
		all = append(all, told{p.Progress, p.Message})
		return nil
	}}, &all
}

func TestProgressComesAtMostTwiceASecondAndGrows(t *testing.T) {
	clk := testingclock.NewFakeClock(time.Unix(0, 0))
	p, all := heard(clk)
	call := &Call{progress: p, time: clk}
	for _, step := range []struct {
		after   time.Duration
		message string
	}{{0, "a"}, {499 * time.Millisecond, "too soon"}, {time.Millisecond, "b"}, {0, "too soon"}, {time.Hour, "c"}} {
		clk.Step(step.after)
		call.Progress(t.Context(), step.message)
	}
	if diff := cmp.Diff([]told{{1, "a"}, {2, "b"}, {3, "c"}}, *all); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestProgressReachesWhoAskedForIt(t *testing.T) {
	for _, revision := range []string{modern, legacy} {
		for _, token := range []any{nil, "token-1", 7} {
			s := &Set{}
			Add(s, Definition{Name: "ask", Effect: Reads}, func(ctx context.Context, call *Call, _ nothing) (nothing, error) {
				call.Progress(ctx, "half")
				return nothing{}, nil
			})
			notified := make(chan *mcp.ProgressNotificationParams, 2)
			session := serve(s, Env{Kube: fakeKube(t, interceptor.Funcs{})}).connect(t, revision, &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) { notified <- req.Params },
			})
			params := &mcp.CallToolParams{Name: "ask"}
			if token != nil {
				params.SetProgressToken(token)
			}
			say(t, session, params)
			if token == nil {
				session.Close()
				if len(notified) > 0 {
					t.Errorf("%s: told %+v to nobody who asked", revision, <-notified)
				}
				continue
			}
			select {
			case got := <-notified:
				if fmt.Sprint(got.ProgressToken) != fmt.Sprint(token) || got.Progress != 1 || got.Message != "half" {
					t.Errorf("%s, token %v: told %+v", revision, token, got)
				}
			case <-polltest.Context(t).Done():
				t.Errorf("%s, token %v: nothing was told", revision, token)
			}
		}
	}
}
