package revision

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	hashBits = 22
	hashMask = 1<<hashBits - 1
	// epoch is 2020-01-01T00:00:00Z.
	epoch = 1577836800
)

// Set writes the resourceVersion that follows from the object itself. newest is
// the newest timestamp that belongs to it.
func Set(obj metav1.Object, newest time.Time) error {
	fields := obj.GetManagedFields()
	obj.SetResourceVersion("")
	obj.SetManagedFields(nil)
	content, err := json.Marshal(obj)
	obj.SetManagedFields(fields)
	if err != nil {
		return fmt.Errorf("hashing object %s/%s: %w", obj.GetNamespace(), obj.GetName(), err)
	}
	sum := sha256.Sum256(content)
	hash := uint64(binary.BigEndian.Uint32(sum[:4])) & hashMask
	obj.SetResourceVersion(strconv.FormatUint(seconds(newest)<<hashBits|hash, 10))
	return nil
}

// OfList is the resourceVersion of a list that was read at the given time.
func OfList(now time.Time) uint64 {
	return seconds(now)<<hashBits | hashMask
}

// seconds is at least 1, so that no resourceVersion is 0, which has a meaning.
func seconds(t time.Time) uint64 {
	return uint64(max(t.Unix()-epoch, 1))
}
