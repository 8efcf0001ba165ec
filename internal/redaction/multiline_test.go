package redaction

import (
	"strings"
	"testing"
)

// stamped returns a text with a timestamp in each line, as in the log of a pod.
func stamped(text string) string {
	var log strings.Builder
	for line := range strings.Lines(text) {
		log.WriteString("2026-11-21T22:45:02.123456789Z " + line)
	}
	return log.String()
}

func TestPrivateKeysInLogs(t *testing.T) {
	const (
		begin = "-----BEGIN RSA PRIVATE KEY-----"
		end   = "-----END RSA PRIVATE KEY-----"
		body  = "MIIEpAIBAAKCAQEA7bq2q83vEjRWeJASNFZ4\nkBI0VniQEjRWeJASNFZ4kBI0VniQEjRWeJAS\nAg==\n"
	)
	for name, text := range map[string]string{
		"whole":       "before\n" + begin + "\n" + body + end + "\nthe end\n",
		"encrypted":   "before\n" + begin + "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00112233445566778899AABBCCDDEEFF\n\n" + body + end + "\nthe end\n",
		"no end":      "before\n" + begin + "\n" + body,
		"text after":  "before\n" + begin + "\n" + body + "connected to the database (took 3 s)\nthe end\n",
		"no begin":    body + end + "\nthe end\n",
		"in a quote":  `before {"key":"` + begin + `\\n` + strings.ReplaceAll(body, "\n", `\\n`) + end + `"}` + "\nthe end\n",
		"two of them": begin + "\n" + body + end + "\n" + begin + "\n" + body + end + "\nthe end\n",
	} {
		for kind, log := range map[string]string{"plain": text, "stamped": stamped(text)} {
			var r Redactor
			got := r.Text(log)
			for _, secret := range []string{"MIIEpAIB", "kBI0VniQ", "Ag=="} {
				if strings.Contains(got, secret) {
					t.Errorf("%s, %s: %s is there:\n%s", name, kind, secret, got)
				}
			}
			for _, kept := range []string{"before", "the end", "connected to the database"} {
				if strings.Contains(text, kept) && !strings.Contains(got, kept) {
					t.Errorf("%s, %s: %q is gone:\n%s", name, kind, kept, got)
				}
			}
		}
	}
}

// A certificate is public, and a log that only mentions keys is not changed.
func TestWhatIsNoKeyStays(t *testing.T) {
	for _, text := range []string{
		"-----BEGIN CERTIFICATE-----\nMIIEpAIBAAKCAQEA7bq2q83vEjRWeJASNFZ4\n-----END CERTIFICATE-----\n",
		"a file begins with -----BEGIN CERTIFICATE-----\nstarted\n",
	} {
		var r Redactor
		if got := r.Text(text); got != text {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

func TestAccountsOnCommandLines(t *testing.T) {
	for text, want := range map[string]string{
		"curl -u admin:hunter2 https://x":      "curl -u admin:[redacted] https://x",
		"curl --user=admin:hunter2 https://x":  "curl --user=admin:[redacted] https://x",
		"docker run --user 1000:1000 -u 0 img": "docker run --user 1000:[redacted] -u 0 img",
	} {
		var r Redactor
		if got := r.Text(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
