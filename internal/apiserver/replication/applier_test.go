package replication

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectlog"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/partition"
)

func TestIntakeRefusesWhatDoesNotFollow(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		term, promised, previous uint64
		refused                  bool
	}{
		"what follows on the head":          {term: 5, promised: 5, previous: 10},
		"what leaves a gap":                 {term: 5, promised: 5, previous: 11, refused: true},
		"what follows on an older revision": {term: 5, promised: 5, previous: 9, refused: true},
		"an earlier writer":                 {term: 5, promised: 6, previous: 10, refused: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			log := objectlog.New(objectlog.Config{})
			if err := log.Reset(nil, 10); err != nil {
				t.Fatal(err)
			}
			a := &applier{
				logs:  map[string]LogConfig{things: {Log: log, NewObject: func() objectlog.Object { return &corev1.ConfigMap{} }}},
				board: &partition.Board{}, clock: clock.RealClock{},
			}
			in := a.intake(c.term)
			a.promise(c.promised)
			change, err := encodeChange(objectlog.Change{Key: key("x"), Revision: 20, Object: thing("x", "1"), Time: time.Now()})
			if err != nil {
				t.Fatal(err)
			}
			_, moved, err := in.take(&frame{Kind: frameChanges, Resource: things, Previous: c.previous, Head: 20, Items: []item{change}})
			if refused := err != nil; refused != c.refused || moved == c.refused {
				t.Errorf("refused %t (%v), moved %t, want refused %t", refused, err, moved, c.refused)
			}
			if err := in.take1(&frame{Kind: frameBoard, Board: []partition.Partition{}}); (err != nil) != (c.term < c.promised) {
				t.Errorf("the board of term %d after a promise of %d gives %v", c.term, c.promised, err)
			}
		})
	}
}

func TestFramesAreBounded(t *testing.T) {
	t.Parallel()
	if _, err := readFrame(endless{}); err == nil {
		t.Error("a frame of 4 GiB is accepted")
	}
}

// endless is a stream whose first frame says it is as long as can be.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 0xff
	}
	return len(p), nil
}

// take1 gives the error alone.
func (in *intake) take1(message *frame) error {
	_, _, err := in.take(message)
	return err
}
