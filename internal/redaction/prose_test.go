package redaction

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

const (
	sampleJWT     = "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6YSJ9.c2lnbmF0dXJlLW9mLXRoZS10b2tlbg"
	sampleSession = "a1B2c3D4e5-Zy9Xw8Vu7Ts6Rq5Po4Nm3L"
	sampleHex     = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

func TestSecretsAreReplaced(t *testing.T) {
	tests := map[string]string{
		// Authorization and the other headers.
		"Authorization: Bearer abc123def":                             "Authorization: Bearer [redacted]",
		"authorization: Basic dXNlcjpwYXNz":                           "authorization: Basic [redacted]",
		`{"Authorization":"Bearer letmein"}`:                          `{"Authorization":"Bearer [redacted]"}`,
		`map[Authorization:[Bearer abc123]]`:                          `map[Authorization:[Bearer [redacted]]]`,
		"Proxy-Authorization: Basic letmein":                          "Proxy-Authorization: Basic [redacted]",
		"Authorization: AWS4-HMAC-SHA256 Credential=x1y2z3, Sig=ab12": "Authorization: AWS4-HMAC-SHA256 [redacted]",
		"Authorization: 0123456789abcdef":                             "Authorization: [redacted]",
		`curl -H "Authorization: token 0123abcd" http://x`:            `curl -H "Authorization: token [redacted]" http://x`,
		"sent bearer abcdef0123456789 to the server":                  "sent bearer [redacted] to the server",
		"Cookie: coder_session_token=abc; other=1":                    "Cookie: [redacted]",
		`"Set-Cookie":["session=abc; Path=/"]`:                        `"Set-Cookie":["[redacted]"]`,
		"Coder-Session-Token: " + sampleSession:                       "Coder-Session-Token: [redacted]",
		// Passwords in URLs.
		"postgres://coder:hunter@db:5432/coder?sslmode=disable":            "postgres://coder:[redacted]@db:5432/coder?sslmode=disable",
		"redis://:hunter@cache:6379":                                       "redis://:[redacted]@cache:6379",
		"https://user:p%40ss@host/a https://b:c@d/":                        "https://user:[redacted]@host/a https://b:[redacted]@d/",
		"http://a:8080/x,postgres://u:pass@h/d":                            "http://a:8080/x,postgres://u:[redacted]@h/d",
		"amqp://host:name/x,postgres://u:pass@h/d":                         "amqp://host:name/x,postgres://u:[redacted]@h/d",
		"postgres://u:p@ss@host/db":                                        "postgres://u:[redacted]@host/db",
		"postgres://u:p#s/s?@host/db":                                      "postgres://u:[redacted]@host/db",
		`parse "postgres://u:hun#ter@h/d": invalid port ":hun" after host`: `parse "postgres://u:[redacted]@h/d": invalid port ":[redacted]" after host`,
		// Assignments.
		"password=hunter":                                  "password=[redacted]",
		"host=db user=coder password=hunter db=x":          "host=db user=coder password=[redacted] db=x",
		"PGPASSWORD='it is long' psql":                     "PGPASSWORD='[redacted]' psql",
		`DB_PASSWORD="a\"b" next`:                          `DB_PASSWORD="[redacted]" next`,
		`{"password":"hunter","user":"a"}`:                 `{"password":"[redacted]","user":"a"}`,
		`{\"token\":\"abc\",\"user\":\"a\"}`:               `{\"token\":\"[redacted]\",\"user\":\"a\"}`,
		`{"token": 123456, "user": "a"}`:                   `{"token": [redacted], "user": "a"}`,
		"password: hunter":                                 "password: [redacted]",
		"  clientSecret: abc123":                           "  clientSecret: [redacted]",
		"client_secret = \"abc\"":                          "client_secret = \"[redacted]\"",
		"password => 'abc'":                                "password => '[redacted]'",
		"GET /x?token=abc&user=b":                          "GET /x?token=[redacted]&user=b",
		"GET /x?user=b&token=abc HTTP/1.1":                 "GET /x?user=b&token=[redacted] HTTP/1.1",
		"(secret=abc, user=x)":                             "(secret=[redacted], user=x)",
		"secret=a,b&c;d":                                   "secret=[redacted]",
		"apiKey=abc,api-key=abc,API_KEY=abc":               "apiKey=[redacted],api-key=[redacted],API_KEY=[redacted]",
		"CODER_PROVISIONER_DAEMON_PSK=abc":                 "CODER_PROVISIONER_DAEMON_PSK=[redacted]",
		"aws_secret_access_key = wJalr/XUtnFEMI+K":         "aws_secret_access_key = [redacted]",
		"a secret, ſecret=hunter":                          "a secret, ſecret=[redacted]",
		"AccountName=a;AccountKey=x1y2==;Other=z":          "AccountName=a;AccountKey=[redacted];Other=z",
		"--token abc12345 --user x":                        "--token [redacted] --user x",
		"--db-password=abc --user x":                       "--db-password=[redacted] --user x",
		"secret=" + "0f8fad5b-d9cb-469f-a165-70867728950e": "secret=[redacted]",
		// Tokens that are recognized by their format.
		"saw " + sampleJWT + " there":                       "saw eyJ[redacted] there",
		"saw " + sampleSession + " there":                   "saw a1B2c3D4e5-[redacted] there",
		"[" + sampleSession + "," + sampleSession + "]":     "[a1B2c3D4e5-[redacted],a1B2c3D4e5-[redacted]]",
		"0f8fad5b-d9cb-469f-a165-70867728950e:" + sampleHex: "0f8fad5b-d9cb-469f-a165-70867728950e:[redacted]",
		"key AKIAIOSFODNN7EXAMPLE is used":                  "key AKIA[redacted] is used",
		"ghp_abcdefABCDEF0123456789abcdefABCDEF01":          "ghp_[redacted]",
		"coder_Ab3Cd5Ef7G_" + strings.Repeat("aB1c", 10):    "coder_[redacted]",
		"sk-proj-Ab3Cd5Ef7Gh9Ij1Kl3Mn5":                     "sk-[redacted]",
		"first\npassword=hunter\nanother":                   "first\npassword=[redacted]\nanother",
	}
	for in, want := range tests {
		if got := Prose(in); got != want {
			t.Errorf("Prose(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestSentencesAboutSecretsStay(t *testing.T) {
	for _, s := range []string{
		"",
		"Server listening on http://10.0.0.1:8080/healthz?user=a@b.c",
		"dial tcp 10.0.0.1:5432: connect: connection refused",
		"connecting to postgres://coder@db:5432/coder",
		"postgres://coder:xxxxx@db/coder and postgres://coder:$(PASSWORD)@db/coder",
		`pq: password authentication failed for user "coder"`,
		"invalid token: expired",
		"invalid password: too short",
		"Bearer authentication failed",
		"Basic auth is off",
		`WWW-Authenticate: Bearer realm="coder"`,
		"authorization: denied for user alice",
		"the bearer token is missing",
		`secret "coder-tls" not found`,
		"MountVolume.SetUp failed for volume \"tls\" : secret \"coder-tls\" not found",
		`"Reconciling" secret="coder/coder-db"`,
		"couldn't find key url in Secret coder/coder-db",
		"secret=coder-operator-token",
		"token=null password=<nil> secret=\"\" api_key=none",
		"password=[redacted] token=[REDACTED] secret=***",
		"CODER_SESSION_TOKEN_FILE=/run/token token=/var/run/secrets/token",
		"password=$(PGPASSWORD) token=${TOKEN} secret=$SECRET",
		"tokenSecretRef: coder-db, tokens=5, max_tokens: 4096",
		`if token == "" {`,
		"token={Name:x}",
		"use --token or --password to log in",
		"ReplicaSet coder-7d8b9c5f4d-abcde",
		"api_key_id=a1B2c3D4e5 request_id=0f8fad5b-d9cb-469f-a165-70867728950e",
		"image ghcr.io/coder/coder@sha256:" + sampleHex,
		"sha256:" + sampleHex,
		"pulled image registry.example.com/coder/coder@sha256:" + sampleHex,
		`secret=<redacted> password="REDACTED"`,
		"counted-counterrevolutionaries",
		"x" + sampleSession + " is longer than a token",
		"abcdefghij-abcdefghijklmnopqrstuv",
		"coder_k8s_mcp_tool_calls_total 5",
		"pod sk-app-7d8b9c5f4d-abcde, risk-averse",
		"eyJust a word",
		"-----BEGIN CERTIFICATE-----\nMIIBszCCAVmg\n-----END CERTIFICATE-----",
		"cookie: not accepted",
		"2026-11-21T17:56:34Z [info] coderd: started  version=v2.30.0  key=value",
		"tabs\tand\nline breaks\n",
		"äöü 日本語 🚀",
	} {
		if got := Prose(s); got != s {
			t.Errorf("Prose(%q) = %q", s, got)
		}
	}
}

func TestPrivateKeysAreReplaced(t *testing.T) {
	const begin, end = "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"
	tests := map[string]struct{ in, want string }{
		"whole":           {"a\n" + begin + "\nMIIEow\nAbc=\n" + end + "\nb", "a\n[redacted]\nb"},
		"in JSON":         {`{"key":"` + begin + `\nMIIEow\n` + end + `\n"}`, `{"key":"[redacted]\n"}`},
		"with prefixes":   {"t1 " + begin + "\nt2 MIIEow\nt3 " + end + "\nt4 b", "t1 [redacted]\nt4 b"},
		"two":             {begin + "\nA\n" + end + "\nx\n" + begin + "\nB\n" + end, "[redacted]\nx\n[redacted]"},
		"without its end": {"a\n" + begin + "\nMIIEow\nAbc=\nthe next line\nword", "a\n[redacted]\nthe next line\nword"},
		"cut within JSON": {`{"key":"` + begin + `\nMIIEow`, `{"key":"[redacted]`},
		"without begin":   {"MIIEow\nAbc=\n" + end + "\nb", "[redacted]\nb"},
		"the end of JSON": {`MIIEow\nAbc=\n` + end + `"} b`, `[redacted]"} b`},
		"a line before":   {"a b\nAbc=\n" + end, "a b\n[redacted]"},
		"OpenSSH":         {"-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blb\n-----END OPENSSH PRIVATE KEY-----", "[redacted]"},
		"PKCS 8":          {"-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----", "[redacted]"},
		"PGP":             {"-----BEGIN PGP PRIVATE KEY BLOCK-----\nlQ==\n-----END PGP PRIVATE KEY BLOCK-----", "[redacted]"},
		"far apart":       {begin + "\nMII\n" + strings.Repeat("a line\n", maxPrivateKey/7) + end, "[redacted]\n" + strings.Repeat("a line\n", maxPrivateKey/7) + "[redacted]"},
		"two begins":      {begin + "\nMII\n" + begin + "\nMII\n" + end + "\nb", "[redacted]\n[redacted]\nb"},
		"only a marker":   {"no PRIVATE KEY here", "no PRIVATE KEY here"},
	}
	for name, tc := range tests {
		if got := Prose(tc.in); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// hostileTexts returns texts that make inefficient code slow: repeated beginnings without
// ends.
func hostileTexts(size int) map[string]string {
	texts := map[string]string{}
	for _, part := range []string{
		"a", "-", " ", "\n", "\\", `"`, "\x1b", "\x1b]", "\x1b[", "\u009d", "\x1b[3", "\r", "\xff",
		"password", "token=", `token="`, `token=\"`, `token='a" `, "token=a,", "token=,", "token=a&b", "token: ", "token:", "token={", "token:a", "password:a ", "secret=a-b;", "--token ", "-key",
		"authorization:", "Authorization: Bearer a ", "bearer ", "bearer a-", "cookie: a", "cookie:a=",
		"://", "://a:", "://a:b/", "://a:b@", "://a:b@c,", `invalid port ":`, "?sig=",
		"eyJ", "eyJ-", "eyJabcdef.", "eyJabcdef.abcdefghij.", "ghp_", "ghp_a-", "sk-aB-", "AKIA", "coder_",
		"a1B2c3D4e5-", sampleSession, sampleSession + "-", "0f8fad5b-d9cb-469f-a165-70867728950e:",
		"-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----\nA\n", "-----END PRIVATE KEY-----", "A\n-----END PRIVATE KEY-----", "A\nA\\n", "-----BEGIN A A A A",
	} {
		texts[part] = strings.Repeat(part, size/len(part)+1)[:size]
	}
	return texts
}

// TestTimeGrowsWithTheLengthAlone checks for every hostile text that 512 times the length
// takes less than 2,048 times the CPU time. Quadratic time is a factor of up to 262,144; it
// shows only if the long text takes seconds.
func TestTimeGrowsWithTheLengthAlone(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	kubetest.SkipWithRace(t)
	took := func(s string) time.Duration {
		start := processorTime(t)
		Prose(s)
		return processorTime(t) - start
	}
	const (
		size   = 512
		longer = 512
		most   = 4 * longer
		// leastTime is the smallest time that can be distinguished from noise.
		leastTime = 500 * time.Microsecond
	)
	small, large := hostileTexts(size), hostileTexts(longer*size)
	for part := range small {
		fast, slow := took(small[part]), took(large[part])
		for tries := 1; tries < 4 && slow > most*max(fast, leastTime); tries++ {
			fast, slow = max(fast, took(small[part])), min(slow, took(large[part]))
		}
		if slow > most*max(fast, leastTime) {
			t.Errorf("%q: %v for %d bytes, %v for %d times as many", part, fast, size, slow, longer)
		}
	}
}

func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
