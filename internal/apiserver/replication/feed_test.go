package replication

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectlog"
)

// TestAFollowerGoesOnWhereItIs: one that has a change that the writer has sent and not
// appended yet keeps its history, because a snapshot ends every watch there.
func TestAFollowerGoesOnWhereItIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		theirs, sent uint64
		frames       int
	}{
		"at the head":                     {theirs: 10, sent: 10},
		"with what is not appended yet":   {theirs: 20, sent: 20},
		"with what nobody decided":        {theirs: 15, sent: 20},
		"behind all that is remembered":   {theirs: 5, sent: 10, frames: 1},
		"with what nobody decided, early": {theirs: 7, sent: 20, frames: 1},
	} {
		t.Run(name, func(t *testing.T) {
			log := objectlog.New(objectlog.Config{})
			if err := log.Reset(nil, 10); err != nil {
				t.Fatal(err)
			}
			frames := 0
			f := &feed{
				logs:   map[string]LogConfig{things: {Log: log, NewObject: func() objectlog.Object { return &corev1.ConfigMap{} }}},
				at:     map[string]uint64{},
				theirs: standings{things: {Head: c.theirs, Initialized: true}},
				sent:   func(string) uint64 { return c.sent },
				send: func([]byte) error {
					frames++
					return nil
				},
			}
			if err := f.begin(things); err != nil {
				t.Fatal(err)
			}
			at, follows := f.at[things]
			if frames != c.frames || follows != (c.theirs != 15) {
				t.Errorf("%d snapshots were sent, want %d; it follows on from %d: %t", frames, c.frames, at, follows)
			}
			if c.theirs == 20 && f.acks()[things] != 20 {
				t.Errorf("what it has does not count: %v", f.acks())
			}
		})
	}
}
