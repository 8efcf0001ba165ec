package toolset

import (
	"context"
	"errors"
	"strings"
)

// maxSentence limits the size of an error message for clients, in bytes. A longer message
// contains a name or a value that the client sent.
const maxSentence = 4 << 10

// Sentence returns the outcome and the message for an error outside of tools, in a resource
// or a prompt. They are the same as for an error of a tool. Details that are not meant for
// clients are logged.
func Sentence(ctx context.Context, err error) (outcome, sentence string) {
	outcome, told := explain(ctx, err)
	setOutcome(ctx, outcome)
	return outcome, bounded(told).Error()
}

func bounded(told error) error {
	sentence := told.Error()
	if len(sentence) <= maxSentence {
		return told
	}
	return errors.New(strings.ToValidUTF8(sentence[:maxSentence], "") + "…")
}
