package redaction

import (
	"regexp"
	"strings"
)

const (
	// maxPrivateKey is longer than any private key in PEM format. Markers that are further
	// apart do not belong together.
	maxPrivateKey = 32 << 10
	// maxPrefix and mostPrefixes limit the text before each line of a key.
	maxPrefix    = 256
	mostPrefixes = 3
	// keyAlphabet is base64, with a backslash for escaped line breaks as in JSON.
	keyAlphabet = `ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\`
)

var (
	// keyMarker matches the markers of all PEM and PGP blocks except certificates.
	keyMarker = regexp.MustCompile(`-----(?:BEGIN|END) (?:[A-Z0-9]+ )*(?:PRIVATE KEY(?: BLOCK)?|KEY|MESSAGE|PARAMETERS)-----`)
	keyHeader = regexp.MustCompile(`^(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset): `)
)

// withoutPrivateKeys removes private keys. If one marker of a key is missing, it removes
// the lines that look like a part of the key. Each line may have as many words before it as
// the line of the marker, for example a timestamp.
func withoutPrivateKeys(text string) string {
	if !strings.Contains(text, "-----BEGIN ") && !strings.Contains(text, "-----END ") {
		return text
	}
	markers := keyMarker.FindAllStringIndex(text, -1)
	var out strings.Builder
	done := 0
	for i := 0; i < len(markers); i++ {
		start, end := markers[i][0], markers[i][1]
		next := len(text)
		if i+1 < len(markers) {
			next = markers[i+1][0]
		}
		words := wordsBefore(text[max(0, start-maxPrefix):start])
		switch {
		case isEnd(text[start:end]):
			start -= materialBefore(text[done:start], words)
		case isEnd(text[next:]) && next-end <= maxPrivateKey:
			i++
			end = markers[i][1]
		default:
			end += materialAfter(text[end:next], words)
		}
		out.WriteString(text[done:start])
		out.WriteString(Placeholder)
		done = end
	}
	out.WriteString(text[done:])
	return out.String()
}

func isEnd(marker string) bool { return strings.HasPrefix(marker, "-----END") }

// wordsBefore returns the number of words before a marker in its line.
func wordsBefore(s string) int {
	prefix := s[strings.LastIndexByte(s, '\n')+1:]
	words := len(strings.Fields(prefix))
	if strings.TrimRight(prefix, blanks) == prefix {
		// Text that touches the marker is not a word but a quote of the key.
		words--
	}
	return min(max(words, 0), mostPrefixes)
}

// materialAfter returns how many of the first bytes of s look like the part of a key after
// its first marker.
func materialAfter(s string, words int) int {
	n := len(s) - len(strings.TrimLeft(s, keyAlphabet+"\r"))
	header := false
	for strings.HasPrefix(s[n:], "\n") {
		line, _, _ := strings.Cut(s[n+1:], "\n")
		fields := strings.Fields(line)
		isHeader := keyHeader.MatchString(strings.Join(fields[min(words, len(fields)):], " "))
		isGap := header && len(fields) <= words
		if !isHeader && !isGap && !isMaterial(fields, words) {
			break
		}
		header = isHeader
		n += 1 + len(line)
	}
	return n
}

// materialBefore returns how many of the last bytes of s look like the part of a key before
// its last marker.
func materialBefore(s string, words int) int {
	kept := strings.TrimRight(s, keyAlphabet)
	above := kept[:strings.LastIndexByte(kept, '\n')+1]
	if words == 0 && strings.TrimSpace(kept[len(above):]) != "" {
		return len(s) - len(kept)
	}
	first := above
	for first != "" {
		start := strings.LastIndexByte(first[:len(first)-1], '\n') + 1
		if !isMaterial(strings.Fields(first[start:]), words) {
			break
		}
		first = first[:start]
	}
	if first == above {
		return len(s) - len(kept)
	}
	return len(s) - len(first)
}

// isMaterial reports whether a line can belong to a key: base64 after at most words words.
func isMaterial(fields []string, words int) bool {
	return len(fields) > 0 && len(fields) <= words+1 && strings.Trim(fields[len(fields)-1], keyAlphabet) == ""
}

var (
	// blockBegin matches a line of YAML whose key is a keyword and whose value is a block
	// scalar.
	blockBegin = regexp.MustCompile(`(?i)(?:authorization|` + keyword + `)["']?[ \t]*:[ \t]+[|>][+-]?[0-9]?[+-]?[ \t]*(?:#.*)?$`)
	// lineStamp matches the timestamp that kube-apiserver adds to each line of a log.
	lineStamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT[0-9:.]+(?:Z|[+-]\d\d:\d\d) `)
)

// withoutBlocks removes YAML block scalars: all lines after the keyword with a deeper
// indentation.
func withoutBlocks(text string) string {
	var out strings.Builder
	out.Grow(len(text))
	inside, depth := false, 0
	for line := range strings.Lines(text) {
		if !inside && !strings.ContainsAny(line, "|>") {
			out.WriteString(line)
			continue
		}
		content := strings.TrimRight(line, "\r\n")
		stamp := lineStamp.FindString(content)
		content = content[len(stamp):]
		indent := len(content) - len(strings.TrimLeft(content, " \t"))
		switch {
		case inside && strings.TrimSpace(content) == "":
		case inside && indent > depth:
			line = stamp + content[:indent] + Placeholder + line[len(strings.TrimRight(line, "\n")):]
		default:
			inside = blockBegin.MatchString(content)
			// The keys of a list entry are as deep as the text after its dash.
			depth = len(content) - len(strings.TrimLeft(content, " \t-"))
		}
		out.WriteString(line)
	}
	return out.String()
}
