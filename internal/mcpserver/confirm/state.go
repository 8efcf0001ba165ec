package confirm

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"k8s.io/utils/clock"
)

const (
	// Lifetime is how long an answer is valid after its question.
	Lifetime = 10 * time.Minute

	// version is the first byte of a state. It changes with the format.
	version = 1
	// minKeyBytes is the size of the hash. A shorter key would weaken it.
	minKeyBytes = sha256.Size
	// headerBytes is the size of the version and the expiry, in seconds since 1970.
	headerBytes = 1 + 8
	stateBytes  = headerBytes + sha256.Size
)

var (
	// ErrForged means that the state was not issued for this subject.
	ErrForged = errors.New("the state was not issued for this call")
	// ErrExpired means that the state was issued for this subject too long ago.
	ErrExpired = errors.New("the state is too old")
)

// Subject is what a state is valid for.
type Subject struct {
	// User is the name of the caller.
	User string
	Tool string
	// Arguments are the arguments of the call as canonical JSON, without the confirmation.
	Arguments []byte
	// Question distinguishes the questions of a tool.
	Question string
}

// States issues and checks states. It is safe for concurrent use.
type States struct {
	key   func(context.Context) ([]byte, error)
	clock clock.PassiveClock
}

// New returns States that sign with a key of at least 32 bytes, which all replicas share.
// key is called for each state, so that the key can change.
func New(key func(context.Context) ([]byte, error), clk clock.PassiveClock) *States {
	return &States{key: key, clock: clk}
}

// Issue returns the state for a question. It fails only if the key is not available.
func (s *States) Issue(ctx context.Context, subject Subject) (string, error) {
	state := make([]byte, headerBytes, stateBytes)
	state[0] = version
	binary.BigEndian.PutUint64(state[1:], uint64(s.clock.Now().Add(Lifetime).Unix()))
	seal, err := s.seal(ctx, state, subject)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(append(state, seal...)), nil
}

// Check returns nil if the state was issued for the subject and has not expired. Otherwise
// it returns ErrForged, ErrExpired, or the error of reading the key.
func (s *States) Check(ctx context.Context, state string, subject Subject) error {
	// Check the length of the text, because the decoder ignores line breaks.
	if len(state) != base64.RawURLEncoding.EncodedLen(stateBytes) {
		return ErrForged
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(state)
	if err != nil || len(raw) != stateBytes || raw[0] != version {
		return ErrForged
	}
	header, seal := raw[:headerBytes], raw[headerBytes:]
	want, err := s.seal(ctx, header, subject)
	if err != nil {
		return err
	}
	if !hmac.Equal(seal, want) {
		return ErrForged
	}
	if uint64(s.clock.Now().Unix()) >= binary.BigEndian.Uint64(header[1:]) {
		return ErrExpired
	}
	return nil
}

// seal returns the HMAC over a header and a subject. The length of each part is included,
// so that different subjects never produce the same input.
func (s *States) seal(ctx context.Context, header []byte, subject Subject) ([]byte, error) {
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
