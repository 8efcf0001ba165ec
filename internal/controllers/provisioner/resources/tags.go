package resources

import (
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
)

// TagsHash identifies tags, whatever their order.
func TagsHash(tags map[string]string) string {
	sum := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		sum.Write([]byte(key + "\x00" + tags[key] + "\x00"))
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// tagsVariable is tags as the daemon reads them from its environment: a record of
// comma-separated values.
func tagsVariable(tags map[string]string) string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		pairs = append(pairs, key+"="+tags[key])
	}
	var out strings.Builder
	// Nothing can fail in memory.
	w := csv.NewWriter(&out)
	_ = w.Write(pairs)
	w.Flush()
	return strings.TrimSuffix(out.String(), "\n")
}
