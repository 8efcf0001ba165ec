package protocol

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// FuzzArguments calls the audit log and the timeout with arbitrary arguments.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{``, `null`, `{"namespace":"a","name":"b","dryRun":true}`, `{"wait":true,"timeoutSeconds":1e308}`, `{"name":{"a":[]}}`, `[`, "{\"name\":\"\xff\"}"} {
		f.Add("tool", seed)
	}
	s, err := New(Config{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, tool, arguments string) {
		req := &mcp.CallToolRequest{Session: &mcp.ServerSession{}, Params: &mcp.CallToolParamsRaw{Name: tool, Arguments: json.RawMessage(arguments)}}
		if got := s.timeout(req); got < 30*time.Second && !strings.Contains(arguments, "timeoutSeconds") && !strings.Contains(strings.ToLower(arguments), "timeoutseconds") || got > 610*time.Second || got < 10*time.Second {
			t.Errorf("it may take %s", got)
		}
		did, ok := deedOf(req)
		if !ok || did.target != tool {
			t.Errorf("the record is %+v", did)
		}
		for _, value := range []string{did.target, did.namespace, did.name} {
			if short := cut(value); len(short) > maxLogged+len("…") || (len(value) > maxLogged && !utf8.ValidString(short)) {
				t.Errorf("%q is written", short)
			}
		}
	})
}
