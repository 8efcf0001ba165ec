package coderd

import "github.com/coder-k8s/coder-k8s/internal/truncate"

// The maximum lengths of the texts that this package returns. They are written to objects,
// conditions, events and logs. Coder's own texts are shorter.
const (
	// maxName limits names, statuses and other texts of one word or line.
	maxName = 256
	// maxText limits descriptions, URLs of icons and build errors.
	maxText = 4 << 10
	// maxTexts limits lists of such texts.
	maxTexts = 100
	// maxApps limits the apps of an agent.
	maxApps = 50
)

// boundName truncates a name to maxName bytes.
func boundName(s string) string { return truncate.String(s, maxName) }

// boundText truncates a text to maxText bytes.
func boundText(s string) string { return truncate.String(s, maxText) }

// boundTexts truncates a list and the texts in it.
func boundTexts(list []string) []string {
	var out []string
	for _, s := range list[:min(len(list), maxTexts)] {
		out = append(out, truncate.String(s, maxMessage))
	}
	return out
}
