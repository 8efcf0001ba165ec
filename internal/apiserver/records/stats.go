package records

import (
	"context"
	"sync/atomic"

	"k8s.io/apiserver/pkg/storage"
)

// EnableResourceSizeEstimation makes Stats report the number of objects.
func (s *Store) EnableResourceSizeEstimation(keys storage.KeysFunc) error {
	s.keys.Store(&keys)
	return nil
}

// Stats returns the number of objects and their average size.
func (s *Store) Stats(ctx context.Context) (storage.Stats, error) {
	keys := s.keys.Load()
	if keys == nil {
		return storage.Stats{}, nil
	}
	found, err := (*keys)(ctx)
	return storage.Stats{ObjectCount: int64(len(found)), EstimatedAverageObjectSizeBytes: s.sizes.average()}, err
}

// sizes is a moving average.
type sizes struct{ value atomic.Int64 }

func (s *sizes) note(size int) {
	// Of two concurrent calls one may be lost. An average tolerates that.
	if before := s.value.Load(); before != 0 {
		s.value.Store(before + (int64(size)-before)/16)
		return
	}
	s.value.Store(int64(size))
}

func (s *sizes) average() int64 { return s.value.Load() }
