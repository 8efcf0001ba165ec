package toolset

import (
	"strings"
	"testing"

	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

func TestCleanSource(t *testing.T) {
	const jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"
	for name, c := range map[string]struct{ path, source, want string }{
		"nothing":                          {"main.tf", "", ""},
		"a reference":                      {"main.tf", "password = var.db_password\n", "password = var.db_password\n"},
		"a reference with an index":        {"main.tf", "  token  = coder_agent.main[0].token", "  token  = coder_agent.main[0].token"},
		"two references":                   {"modules/a.tf", "x = { password = var.a, token = local.b[\"c\"] }", "x = { password = var.a, token = local.b[\"c\"] }"},
		"an interpolation":                 {"main.tf", `url = "postgres://u:${var.password}@h/db"` + "\n", `url = "postgres://u:${var.password}@h/db"` + "\n"},
		"an interpolation of another file": {"start.sh.tftpl", "export TOKEN=${agent.token}\n", "export TOKEN=${agent.token}\n"},
		"an interpolation in a list":       {"main.tf", "env = [\"CODER_AGENT_TOKEN=${coder_agent.main.token}\"]\nx = 1\n", "env = [\"CODER_AGENT_TOKEN=${coder_agent.main.token}\"]\nx = 1\n"},
		"an interpolation in a heredoc":    {"main.tf", "a = <<EOT\nTOKEN=${var.t}\nEOT\n", "a = <<EOT\nTOKEN=${var.t}\nEOT\n"},
		"a reference after a heredoc":      {"main.tf", "a = <<-EOT\n  b\n  EOT\npassword = var.p\n", "a = <<-EOT\n  b\n  EOT\npassword = var.p\n"},
		"a literal":                        {"main.tf", `password = "hunter22"` + "\n", `password = "[redacted]"` + "\n"},
		"a literal like a reference":       {"main.tf", `password = "var.hunter22"` + "\n", `password = "[redacted]"` + "\n"},
		"a literal beside an expression":   {"main.tf", `url = "postgres://u:hunter22@${var.host}/db"`, `url = "postgres://u:[redacted]@${var.host}/db"`},
		"a literal beside a reference":     {"main.tf", `x = { password = var.a, token = "hunter22" }`, `x = { password = [redacted], token = "[redacted]" }`},
		"a private key":                    {"main.tf", "a = 1\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nb = 2\n", "a = 1\n[redacted]\nb = 2\n"},
		"no secret":                        {"main.tf", `display_name = "Small" # ok` + "\n", `display_name = "Small" # ok` + "\n"},
		"a token of another file":          {"start.sh", "export TOKEN=" + jwt + "\n", "export TOKEN=[redacted]\n"},
		"a token of Vault":                 {"start.sh", "VAULT_TOKEN=hvs.CAESIJ1234567890abcd\n", "VAULT_TOKEN=[redacted]\n"},
		"a password with dots":             {"start.sh", "PASSWORD=correct.horse.battery\n", "PASSWORD=[redacted]\n"},
		"a password with dots in a string": {"main.tf", `script = "export PASSWORD=correct.horse.battery"`, `script = "export PASSWORD=[redacted]"`},
		"a password in a heredoc":          {"main.tf", "a = <<-EOT\n  PASSWORD=correct.horse.battery\n  EOT\n", "a = <<-EOT\n  PASSWORD=[redacted]\n  EOT\n"},
		"a token like a reference":         {"main.tf", "token = " + jwt + "\n", "token = [redacted]\n"},
		"a default in an interpolation":    {"start.sh", "echo ${DB_PASSWORD:-hunter22} $PASSWORD\n", "echo ${DB_PASSWORD:[redacted]} $PASSWORD\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := CleanSource(c.path, c.source); got != c.want {
				t.Errorf("%q is %q, want %q", c.source, got, c.want)
			}
		})
	}
}

// TestCleanHostileSource takes minutes if a part of a line is searched to the end of the
// line more than a few times.
func TestCleanHostileSource(t *testing.T) {
	kubetest.SkipWithRace(t)
	for _, part := range []string{"=a.b[", "=a.b[=", "=a.", "= ", "${", "${=a.b", "$", "=a.b", `="a.b`, "<<a", "<<-"} {
		line := strings.Repeat(part, (256<<10)/len(part))
		if got := CleanSource("main.tf", "token="+line); got == "" {
			t.Errorf("%q: nothing is left", part)
		}
	}
}
