package framework

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMergeKeepsTheTimeOfTheLastTransition(t *testing.T) {
	then := metav1.NewTime(time.Unix(1000, 0))
	now := metav1.NewTime(time.Unix(2000, 0))
	previous := mergeConditions(nil, []metav1.Condition{
		ConditionTrue("Same", "A", ""), ConditionFalse("Flipped", "A", ""), ConditionTrue("Gone", "A", ""),
	}, 1, then)

	got := mergeConditions(previous, []metav1.Condition{
		ConditionTrue("Same", "B", "new text"), ConditionTrue("Flipped", "A", ""), ConditionUnknown("New", "A", ""),
	}, 2, now)

	want := []metav1.Condition{
		{Type: "Same", Status: metav1.ConditionTrue, Reason: "B", Message: "new text", ObservedGeneration: 2, LastTransitionTime: then},
		{Type: "Flipped", Status: metav1.ConditionTrue, Reason: "A", ObservedGeneration: 2, LastTransitionTime: now},
		{Type: "New", Status: metav1.ConditionUnknown, Reason: "A", ObservedGeneration: 2, LastTransitionTime: now},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("merged conditions (-want +got):\n%s", diff)
	}
}

func TestChangedIsAboutStatusAndReason(t *testing.T) {
	previous := []metav1.Condition{ConditionTrue("Text", "A", "old"), ConditionTrue("Reason", "A", ""), ConditionTrue("Status", "A", "")}
	next := []metav1.Condition{ConditionTrue("Text", "A", "new"), ConditionTrue("Reason", "B", ""), ConditionFalse("Status", "A", ""), ConditionTrue("New", "A", "")}

	var got []string
	for _, c := range changedConditions(previous, next) {
		got = append(got, c.Type)
	}
	if diff := cmp.Diff([]string{"Reason", "Status", "New"}, got); diff != "" {
		t.Errorf("changed conditions (-want +got):\n%s", diff)
	}
}

// TestMessagesAreCutBetweenCharacters cuts a message at each offset within a four-byte character.
// The API server rejects invalid UTF-8.
func TestMessagesAreCutBetweenCharacters(t *testing.T) {
	for offset := range 4 {
		message := strings.Repeat("x", offset) + strings.Repeat("\U0001F600", 2000)
		if got := ConditionTrue("T", "R", message).Message; !utf8.ValidString(got) || len(got) > maxConditionMessage {
			t.Errorf("offset %d: the message has %d bytes and ends with %q", offset, len(got), got[len(got)-8:])
		}
	}
}

func TestLongMessagesAreCut(t *testing.T) {
	if got := len(ConditionTrue("T", "R", strings.Repeat("x", 40000)).Message); got > 32768 {
		t.Errorf("the message has %d bytes, more than a condition may have", got)
	}
}
