package coderd

import "github.com/coder-k8s/coder-k8s/internal/truncate"

// The longest texts that leave this package. They land in objects, conditions, events
// and logs, and Coder's own are shorter.
const (
	// maxName limits names, statuses and whatever else is a word or a line.
	maxName = 256
	// maxText limits descriptions, addresses of icons and the errors of builds.
	maxText = 4 << 10
	// maxTexts limits lists of such texts.
	maxTexts = 100
	// maxApps limits the apps of an agent.
	maxApps = 50
)

// boundName shortens a name.
func boundName(s string) string { return truncate.String(s, maxName) }

// boundText shortens a text.
func boundText(s string) string { return truncate.String(s, maxText) }

// boundTexts shortens a list of texts.
func boundTexts(list []string) []string {
	var out []string
	for _, s := range list[:min(len(list), maxTexts)] {
		out = append(out, truncate.String(s, maxMessage))
	}
	return out
}
