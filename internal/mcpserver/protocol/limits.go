package protocol

import "time"

// limits are the numbers that are the same for every server, apart from tests.
type limits struct {
	// call is how long the answer to a request may take.
	call time.Duration
	// beyondWait is what a tool that waits may take beyond its timeoutSeconds.
	beyondWait time.Duration
	// answer is how long the user of a client may think about a question.
	answer time.Duration
	// sessionIdle is after how long without a request a session ends.
	sessionIdle time.Duration
	// stream is how long a stream or a subscription may last. Package identity ends
	// every request after an hour.
	stream time.Duration
	// lastMessage is how long before its token a stream ends.
	lastMessage time.Duration
	// coalesce is how long further changes of a resource wait for the next one to be
	// told together.
	coalesce time.Duration
	// urisPerStream is how many resources one stream may be about.
	urisPerStream int
	// pageSize is how many items a list has at most.
	pageSize int
}

func defaultLimits() limits {
	return limits{
		call:          30 * time.Second,
		beyondWait:    10 * time.Second,
		answer:        5 * time.Minute,
		sessionIdle:   5 * time.Minute,
		stream:        59 * time.Minute,
		lastMessage:   time.Second,
		coalesce:      250 * time.Millisecond,
		urisPerStream: 16,
		pageSize:      100,
	}
}
