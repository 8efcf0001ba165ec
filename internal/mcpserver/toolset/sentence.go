package toolset

import (
	"context"
	"errors"
	"strings"
)

// maxSentence is how many bytes of an error are told. What makes one longer is a
// name or a value that the client sent itself.
const maxSentence = 4 << 10

// Sentence is what a model is told of an error outside of tools, in a resource or
// a prompt: the same sentence that a tool would say, and the same outcome. What is
// not for clients goes to the log.
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
