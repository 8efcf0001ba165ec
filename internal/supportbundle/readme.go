package supportbundle

import (
	"fmt"
	"strings"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/version"
)

// readme returns the README: what is in the archive, what is missing, and what was
// redacted.
func (c *collector) readme() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Support bundle of coder-k8s\n\nCollected at %s by coder-k8s %s.\n\n## What is in it\n\n",
		c.now().UTC().Format(time.RFC3339), version.String())
	for _, p := range c.parts {
		fmt.Fprintf(&b, "- `%s`: %s\n", p.path, p.what)
	}
	if c.metricsToken == "" {
		b.WriteString("\nThere are no metrics, because no token was given for them (`--metrics-token-file`).\n")
	}
	b.WriteString("\n## What could not be had\n\n")
	if len(c.left) == 0 {
		b.WriteString("Nothing is missing.\n")
	}
	for _, line := range c.left {
		fmt.Fprintf(&b, "- %s\n", strings.ReplaceAll(line, "\n", " "))
	}
	if len(c.unlearned) > 0 {
		fmt.Fprintf(&b, "\nThe Secrets of namespace %s could not be read, so that their values could not be looked for in the rest.\n"+
			"Look twice before you give this archive to anybody.\n", strings.Join(c.unlearned, ", "))
	}
	b.WriteString("\n## What was taken out\n\n" +
		"`[redacted]` stands in place of\n\n" +
		"- all values of Secrets and ConfigMaps: keys and sizes are kept. The values of Secrets that could be read were\n" +
		"  looked for in everything else, also encoded, and taken out there too, unless they have fewer than six characters;\n" +
		"- values of variables of the environment, arguments, annotations, HTTP headers, parameters and template variables,\n" +
		"  unless they are known to be harmless; the files of templates;\n" +
		"- what has the form of a secret anywhere: tokens, private keys, passwords in addresses and behind words such as password.\n\n" +
		"Names are kept: of namespaces, objects, users, organizations and hosts. Look through the archive before you\n" +
		"give it to anybody.\n")
	return b.String()
}
