package objectlog

import (
	"context"
	"encoding/json"
	"errors"

	"k8s.io/apiserver/pkg/storage"
)

// sample is from how many objects the average size is estimated.
const sample = 64

// EnableResourceSizeEstimation makes Stats tell the size of objects. The keys are
// not needed: all objects are here.
func (s *Store) EnableResourceSizeEstimation(keys storage.KeysFunc) error {
	if keys == nil {
		return errors.New("enabling the estimation of sizes: there is no function for keys")
	}
	if s.sized.Swap(true) {
		return errors.New("enabling the estimation of sizes: it is enabled already")
	}
	return nil
}

// Stats tells how many objects there are, and how big they are on average.
func (s *Store) Stats(context.Context) (storage.Stats, error) {
	tree, _ := s.config.Log.state()
	stats := storage.Stats{ObjectCount: int64(tree.Len())}
	if !s.sized.Load() || tree.Len() == 0 {
		return stats, nil
	}
	every, seen := max(1, tree.Len()/sample), 0
	var total, counted int64
	tree.Ascend(func(entry *Entry) bool {
		if seen%every == 0 {
			total += s.config.SizeOf(entry.Object)
			counted++
		}
		seen++
		return true
	})
	stats.EstimatedAverageObjectSizeBytes = total / counted
	return stats, nil
}

// sizeOfJSON is about what the object takes in an answer.
func sizeOfJSON(object Object) int64 {
	data, err := json.Marshal(object)
	if err != nil {
		return 0
	}
	return int64(len(data))
}
