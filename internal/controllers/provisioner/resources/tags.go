package resources

import (
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
)

// TagsHash returns a hash of tags that does not depend on their order.
func TagsHash(tags map[string]string) string {
	sum := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		sum.Write([]byte(key + "\x00" + tags[key] + "\x00"))
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// tagsVariable returns tags in the form that the daemon reads from its environment: one CSV record.
func tagsVariable(tags map[string]string) string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		pairs = append(pairs, key+"="+tags[key])
	}
	var out strings.Builder
	// Writing to memory cannot fail.
	w := csv.NewWriter(&out)
	_ = w.Write(pairs)
	w.Flush()
	return strings.TrimSuffix(out.String(), "\n")
}
