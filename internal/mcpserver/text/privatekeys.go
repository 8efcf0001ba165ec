package text

import (
	"regexp"
	"strings"
)

const (
	// maxPrivateKey is longer than any private key in PEM form. A begin and an end
	// that are further apart do not belong together.
	maxPrivateKey = 32 << 10
	// keyAlphabet is base64, with line breaks that are written out as in JSON.
	keyAlphabet = `ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\`
)

var privateKeyMarker = regexp.MustCompile(`-----(?:BEGIN|END) [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----`)

// redactPrivateKeys replaces private keys in PEM form. Of a key whose begin or
// end was cut off it replaces the lines that look like a part of it.
func redactPrivateKeys(s string) string {
	if !strings.Contains(s, "PRIVATE KEY") {
		return s
	}
	markers := privateKeyMarker.FindAllStringIndex(s, -1)
	var b strings.Builder
	done := 0
	for i := 0; i < len(markers); i++ {
		start, end := markers[i][0], markers[i][1]
		next := len(s)
		if i+1 < len(markers) {
			next = markers[i+1][0]
		}
		switch {
		case isEnd(s[start:end]):
			start -= materialBefore(s[done:start])
		case isEnd(s[next:]) && next-end <= maxPrivateKey:
			i++
			end = markers[i][1]
		default:
			end += materialAfter(s[end:next])
		}
		b.WriteString(s[done:start])
		b.WriteString(redacted)
		done = end
	}
	b.WriteString(s[done:])
	return b.String()
}

func isEnd(marker string) bool { return strings.HasPrefix(marker, "-----END") }

// materialAfter is how many of the first bytes of s look like the part of a key
// that follows its begin.
func materialAfter(s string) int {
	n := len(s) - len(strings.TrimLeft(s, keyAlphabet))
	for strings.HasPrefix(s[n:], "\n") {
		line, _, _ := strings.Cut(s[n+1:], "\n")
		if !isMaterial(line) {
			break
		}
		n += 1 + len(line)
	}
	return n
}

// materialBefore is how many of the last bytes of s look like the part of a key
// that precedes its end.
func materialBefore(s string) int {
	kept := strings.TrimRight(s, keyAlphabet)
	for strings.HasSuffix(kept, "\n") {
		line := kept[strings.LastIndexByte(kept[:len(kept)-1], '\n')+1 : len(kept)-1]
		if !isMaterial(line) {
			break
		}
		kept = kept[:len(kept)-1-len(line)]
	}
	return len(s) - len(kept)
}

func isMaterial(line string) bool {
	line = strings.TrimSpace(line)
	return line != "" && strings.Trim(line, keyAlphabet) == ""
}
