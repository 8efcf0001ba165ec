package protocol

import "time"

// limits are fixed for every server, except in tests.
type limits struct {
	// call is the time limit of a request.
	call time.Duration
	// beyondWait is the extra time of a tool that waits, in addition to its timeoutSeconds.
	beyondWait time.Duration
	// answer is the time that the client's user has to answer a question.
	answer time.Duration
	// sessionIdle is the time without a request after which a session ends.
	sessionIdle time.Duration
	// stream is the maximum duration of a stream or a subscription. Package identity ends
	// every request after an hour.
	stream time.Duration
	// lastMessage is how long before the expiry of its token a stream ends.
	lastMessage time.Duration
	// coalesce is the period in which changes of a resource are combined into one
	// notification.
	coalesce time.Duration
	// urisPerStream is the maximum number of resources in one stream.
	urisPerStream int
	// pageSize is the maximum number of items in a list.
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
