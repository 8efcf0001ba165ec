package toolset

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"
)

var start = time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)

func keyOf(b byte) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) { return bytes.Repeat([]byte{b}, minKeyBytes), nil }
}

func subject() confirmationSubject {
	return confirmationSubject{User: "alice", Tool: "delete_workspace", Arguments: []byte(`{"name":"x"}`), Question: "x"}
}

func issue(t testing.TB, s *Confirmations, subject confirmationSubject) string {
	t.Helper()
	state, err := s.Issue(t.Context(), subject)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func TestAStateIsGoodForItsSubjectOnAllReplicas(t *testing.T) {
	clk := testingclock.NewFakePassiveClock(start)
	state := issue(t, NewConfirmations(keyOf(1), clk), subject())
	other := NewConfirmations(keyOf(1), clk)
	for range 2 {
		if err := other.Check(t.Context(), state, subject()); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(state, "alice") || len(state) > 64 {
		t.Errorf("the state is %q", state)
	}
}

func TestAStateIsGoodForNothingElse(t *testing.T) {
	tests := map[string]func(*confirmationSubject){
		"another user":      func(s *confirmationSubject) { s.User = "mallory" },
		"another tool":      func(s *confirmationSubject) { s.Tool = "update_workspace" },
		"other arguments":   func(s *confirmationSubject) { s.Arguments = []byte(`{"name":"y"}`) },
		"another question":  func(s *confirmationSubject) { s.Question = "y" },
		"a moved boundary":  func(s *confirmationSubject) { s.User, s.Tool = "alic", "e"+s.Tool },
		"a moved boundary2": func(s *confirmationSubject) { s.Arguments, s.Question = append(s.Arguments, 'x'), "" },
	}
	states := NewConfirmations(keyOf(1), testingclock.NewFakePassiveClock(start))
	state := issue(t, states, subject())
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			changed := subject()
			change(&changed)
			if err := states.Check(t.Context(), state, changed); !errors.Is(err, errForgedConfirmation) {
				t.Errorf("the check says %v, want %v", err, errForgedConfirmation)
			}
		})
	}
}

func TestAChangedStateIsForged(t *testing.T) {
	states := NewConfirmations(keyOf(1), testingclock.NewFakePassiveClock(start))
	state := issue(t, states, subject())
	raw, err := base64.RawURLEncoding.DecodeString(state)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		changed := bytes.Clone(raw)
		changed[i] ^= 1
		if err := states.Check(t.Context(), base64.RawURLEncoding.EncodeToString(changed), subject()); !errors.Is(err, errForgedConfirmation) {
			t.Errorf("with byte %d changed the check says %v", i, err)
		}
	}
	// The last letter encodes two bits more than the state contains.
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := letters[strings.IndexByte(letters, state[len(state)-1])+1]
	for name, changed := range map[string]string{
		"spelled otherwise": state[:len(state)-1] + string(last),
		"empty":             "", "longer": state + "-TAMPERED", "shorter": state[:len(state)-2], "in other letters": strings.ToUpper(state),
		"with a line break": state[:4] + "\n" + state[4:], "no base64": "%%%",
	} {
		if err := states.Check(t.Context(), changed, subject()); !errors.Is(err, errForgedConfirmation) {
			t.Errorf("a state that is %s: the check says %v", name, err)
		}
	}
	if err := NewConfirmations(keyOf(2), testingclock.NewFakePassiveClock(start)).Check(t.Context(), state, subject()); !errors.Is(err, errForgedConfirmation) {
		t.Errorf("under another key the check says %v", err)
	}
}

func TestAStateExpires(t *testing.T) {
	clk := testingclock.NewFakePassiveClock(start)
	states := NewConfirmations(keyOf(1), clk)
	state := issue(t, states, subject())
	clk.SetTime(start.Add(confirmationLifetime - time.Second))
	if err := states.Check(t.Context(), state, subject()); err != nil {
		t.Errorf("a second before the end the check says %v", err)
	}
	clk.SetTime(start.Add(confirmationLifetime))
	if err := states.Check(t.Context(), state, subject()); !errors.Is(err, errExpiredConfirmation) {
		t.Errorf("at the end the check says %v, want %v", err, errExpiredConfirmation)
	}
	// Another user does not find out whether the state has expired.
	other := subject()
	other.User = "mallory"
	if err := states.Check(t.Context(), state, other); !errors.Is(err, errForgedConfirmation) {
		t.Errorf("for another user the check says %v", err)
	}
}

func TestWithoutAGoodKeyNothingIsIssuedOrAccepted(t *testing.T) {
	missing := errors.New("no secret")
	clk := testingclock.NewFakePassiveClock(start)
	state := issue(t, NewConfirmations(keyOf(1), clk), subject())
	for name, key := range map[string]func(context.Context) ([]byte, error){
		"none":  func(context.Context) ([]byte, error) { return nil, missing },
		"short": func(context.Context) ([]byte, error) { return make([]byte, minKeyBytes-1), nil },
	} {
		t.Run(name, func(t *testing.T) {
			states := NewConfirmations(key, clk)
			if state, err := states.Issue(t.Context(), subject()); err == nil || state != "" {
				t.Errorf("issued %q, %v", state, err)
			}
			err := states.Check(t.Context(), state, subject())
			if err == nil || errors.Is(err, errForgedConfirmation) || errors.Is(err, errExpiredConfirmation) {
				t.Errorf("the check says %v, which is not the key's fault", err)
			}
		})
	}
}

func FuzzCheck(f *testing.F) {
	states := NewConfirmations(keyOf(1), testingclock.NewFakePassiveClock(start))
	good := issue(f, states, subject())
	for _, seed := range []string{good, "", good + "A", good[:20], "AQ", strings.Repeat("A", len(good))} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, state string) {
		if err := states.Check(t.Context(), state, subject()); err == nil && state != good {
			t.Errorf("the state %q was not issued and is accepted", state)
		}
	})
}
