package redaction

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestTextTakesOutWhatHasTheFormOfASecret(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"nothing":            {"reconciling CoderControlPlane coder/coder took 12ms", "reconciling CoderControlPlane coder/coder took 12ms"},
		"names are kept":     {"secretName: coder-db, secretKeyRef of token_ttl", "secretName: coder-db, secretKeyRef of token_ttl"},
		"a PVC is not a key": {"pod coder-7d9f8b6c5d-abcde is ready", "pod coder-7d9f8b6c5d-abcde is ready"},
		"word":               {"db_password=hunter2 next", "db_password=[redacted] next"},
		"word with colon":    {"Client-Secret: hunter2", "Client-Secret: [redacted]"},
		"commas and quotes":  {"password=a,b'c&d next", "password=[redacted] next"},
		"JSON":               {`{"token":"a\"b","n":1}`, `{"token":"[redacted]","n":1}`},
		"JSON in JSON":       {`{"msg":"{\"token\":\"a\\nb\",\"n\":1}"}`, `{"msg":"{\"token\":\"[redacted]\",\"n\":1}"}`},
		"single quotes":      {"api_key = 'a b' c", "api_key = '[redacted]' c"},
		"flag":               {"coder --session-token hunter2 -v", "coder --session-token [redacted] -v"},
		"userinfo":           {"to postgres://coder:p@ss/w@db:5432/coder", "to postgres://[redacted]@db:5432/coder"},
		"query":              {"https://x.example.com/cb?code=abc&n=1", "https://x.example.com/cb?code=[redacted]&n=1"},
		"bearer":             {"sent Bearer abcdefghij", "sent Bearer [redacted]"},
		"JWT":                {"eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0x.", "[redacted]"},
		"Coder's token":      {"x aB3dE5gH7j-kL9mN1pQ3rS5tU7vW9xY1z y", "x [redacted] y"},
		"GitHub's token":     {"ghp_aB3dE5gH7jkL9mN1pQ3rS5tU7vW9xY1z", "[redacted]"},
		"private key": {
			"a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA PRIVATE KEY-----\nb", "a\n[redacted]\nb",
		},
		"private key cut off":   {"a\n-----BEGIN PRIVATE KEY-----\nMIIE\nabc", "a\n[redacted]"},
		"a certificate is kept": {"-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----", "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----"},
	} {
		t.Run(name, func(t *testing.T) {
			var r Redactor
			got := r.Text(test.text)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if again := r.Text(got); again != got {
				t.Errorf("a second time it becomes %q", again)
			}
		})
	}
}

// The lines of a YAML block belong to the keyword if they have a deeper indentation.
func TestTextTakesOutBlocksOfYAML(t *testing.T) {
	for _, text := range []string{
		"kept: 1\ndb_password: |\n  hidden\n\n    hidden too\nkept: 2\n",
		"kept: 1\ntoken: >-  # folded\n hidden\nkept: 2",
		"values:\n- clientSecret: |2+\n    hidden\n  kept: 2\n",
		"\t\"api_key\": |\r\n\t  hidden\r\n\tkept: 2\r\n",
	} {
		for _, text := range []string{text, stamped(text)} {
			var r Redactor
			got := r.Text(text)
			if strings.Contains(got, "hidden") || strings.Count(got, "kept") != strings.Count(text, "kept") {
				t.Errorf("%q becomes %q", text, got)
			}
			if strings.Count(got, "\n") != strings.Count(text, "\n") {
				t.Errorf("%q becomes %q, with other lines", text, got)
			}
		}
	}
	for _, text := range []string{"a table: | one | two |\n  three\n", "note: |\n  kept\n", "tokens used: 3\n  kept\n"} {
		var r Redactor
		if got := r.Text(text); !strings.Contains(got, strings.Fields(text)[len(strings.Fields(text))-1]) {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

// TestTextTakesOutKnownValues checks each encoding of a value.
func TestTextTakesOutKnownValues(t *testing.T) {
	for _, value := range []string{"hunter2hunter2", `q"uo\te<&>'d é`, "a b+c%d", strings.Repeat("x1", 300)} {
		var r Redactor
		r.Learn(value)
		twice := fmt.Sprintf("%q", fmt.Sprintf("%q", value))
		marshalled, err := json.Marshal(map[string]string{"v": value})
		if err != nil {
			t.Fatal(err)
		}
		for _, written := range []string{
			"x" + value + "y", fmt.Sprintf("%q", value), twice, string(marshalled), url.QueryEscape(value), url.PathEscape(value),
			base64.StdEncoding.EncodeToString([]byte(value)), base64.RawURLEncoding.EncodeToString([]byte(value)),
			base64.StdEncoding.EncodeToString([]byte("ab" + value + "cd")), hex.EncodeToString([]byte(value)),
			url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(value))),
		} {
			got := r.Text(written)
			if !strings.Contains(got, Placeholder) || strings.Contains(got, value) {
				t.Errorf("%s becomes %s", written, got)
			}
		}
		// Only the base64 of the surrounding text is left.
		for before := range 4 {
			encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("-", before) + value + "---"))
			if got := r.Text(encoded); len(got) > len(Placeholder)+14 {
				t.Errorf("%d bytes before it: %s becomes %s", before, encoded, got)
			}
		}
	}
}

func TestLearnTakesAValueApart(t *testing.T) {
	var r Redactor
	r.Learn("postgres://coder:p%40ssword@db/coder")
	r.Learn(`{"auths":{"x":{"auth":"` + base64.StdEncoding.EncodeToString([]byte("bot:registry-pw")) + `"}}}`)
	r.Learn("first line of a file\nsecond line of a file\n\n")
	r.Learn("-----BEGIN CERTIFICATE-----\nMIIEpublicpublicpublic\n-----END CERTIFICATE-----\n")
	r.Learn("short")
	for _, secret := range []string{"p@ssword", "p%40ssword", "registry-pw", "second line of a file"} {
		if got := r.Known("<" + secret + ">"); got != "<"+Placeholder+">" {
			t.Errorf("%q becomes %q", secret, got)
		}
	}
	for _, public := range []string{"MIIEpublicpublicpublic", "short"} {
		if got := r.Known(public); got != public {
			t.Errorf("%q becomes %q", public, got)
		}
	}
}

// TestTheLongerOneCounts checks overlapping values, independent of the order in which they
// are learned.
func TestTheLongerOneCounts(t *testing.T) {
	var r Redactor
	for _, value := range []string{"secret-a", "secret-a-and-more"} {
		r.Learn(value)
		_ = r.Known("a text in between")
	}
	if got := r.Known("secret-a-and-more, secret-a"); got != "[redacted], [redacted]" {
		t.Errorf("got %q", got)
	}
}

func TestDocument(t *testing.T) {
	var r Redactor
	r.Learn("hunter2hunter2")
	document := map[string]any{"hunter2hunter2": []any{"hunter2hunter2", 1.5, true, nil, map[string]any{"a": "token=x"}}}
	want := map[string]any{"[redacted]": []any{"[redacted]", 1.5, true, nil, map[string]any{"a": "token=[redacted]"}}}
	if diff := cmp.Diff(want, r.Document(document)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, kept := document["hunter2hunter2"]; !kept {
		t.Error("the document itself was changed")
	}
}

func TestNamesAndLooks(t *testing.T) {
	for name, want := range map[string]bool{
		"password": true, "DB_PASSWORD": true, "CODER_OIDC_CLIENT_SECRET": true, "apiKey": true, "tokens": true, "token_2": true,
		"secretName": false, "token_ttl": false, "region": false, "": false,
	} {
		if NamesSecret(name) != want {
			t.Errorf("NamesSecret(%q) is %v", name, !want)
		}
	}
	for value, want := range map[string]bool{
		"ghp_aB3dE5gH7jkL9mN1pQ3rS5tU7vW9xY1z": true, "postgres://a:b@c/d": true, "large": false, `["a","b"]`: false, "": false,
	} {
		if LooksSecret(value) != want {
			t.Errorf("LooksSecret(%q) is %v", value, !want)
		}
	}
}

// FuzzText checks that a learned value is always removed, whatever surrounds it, that
// redaction is idempotent, and that it does not make the text much longer.
func FuzzText(f *testing.F) {
	f.Add("hunter2hunter2", "password=", "\n")
	f.Add("a b c d e f", `{"token":"`, `"}`)
	for part, hostile := range hostileTexts(64) {
		f.Add("hunter2hunter2", hostile, part)
	}
	f.Fuzz(func(t *testing.T, secret, before, after string) {
		if len(secret)+len(before)+len(after) > 2000 {
			return
		}
		var r Redactor
		r.Learn(secret)
		text := before + secret + after
		known := strings.TrimSpace(secret)
		// A placeholder may complete a value that contains a bracket, and the surrounding
		// text may contain the value.
		isKnown := len(known) >= 2*leastKnown && !isPublic(known) && !strings.ContainsAny(known, "[]") &&
			!strings.Contains(Placeholder, known) && !strings.Contains(before+after, known)
		for name, redact := range map[string]func(string) string{"Text": r.Text, "Message": r.Message, "Prose": Prose} {
			got := redact(text)
			if again := redact(got); again != got {
				t.Errorf("%s: %q becomes %q, and then %q", name, text, got, again)
			}
			if name != "Prose" && isKnown && strings.Contains(got, known) {
				t.Errorf("%s: %q stays in %q", name, secret, got)
			}
			if len(got) > 12*len(text)+len(Placeholder) {
				t.Errorf("%s: %d bytes became %d", name, len(text), len(got))
			}
		}
	})
}

// BenchmarkText measures the redaction of a log, with learned values and without.
func BenchmarkText(b *testing.B) {
	log, r := ordinaryLog()
	b.SetBytes(int64(len(log)))
	for b.Loop() {
		r.Text(log)
	}
}

func BenchmarkProse(b *testing.B) {
	log, _ := ordinaryLog()
	b.SetBytes(int64(len(log)))
	for b.Loop() {
		Prose(log)
	}
}

func ordinaryLog() (string, *Redactor) {
	var log strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&log, `{"level":"info","ts":"2026-11-21T11:59:%02dZ","msg":"Reconciled","controller":"codercontrolplane","namespace":"coder","name":"coder-%d"}`+"\n", i%60, i)
	}
	var r Redactor
	for i := range 30 {
		r.Learn(fmt.Sprintf("a-secret-value-%d-of-some-length", i))
	}
	return log.String(), &r
}

func TestTruncate(t *testing.T) {
	for name, c := range map[string]struct {
		in    string
		limit int
		want  string
	}{
		"short":                  {"abc", 3, "abc"},
		"long":                   {"abcdefgh", 6, "abc…"},
		"inside a character":     {"aäöü", 6, "aä…"},
		"inside a long one":      {"a\U0001F600\U0001F600", 8, "a\U0001F600…"},
		"no room for more":       {"äöü", 3, "…"},
		"no room at all":         {"äöü", 1, ""},
		"nothing":                {"", 0, ""},
		"limit of zero":          {"a", 0, ""},
		"invalid and short":      {"a\xffb", 10, "ab"},
		"ends inside a rune":     {"a\xc3", 10, "a"},
		"invalid where it's cut": {"ab\xff\xff\xff\xff\xff\xff", 6, "ab…"},
	} {
		if got := Truncate(c.in, c.limit); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func FuzzTruncate(f *testing.F) {
	f.Add("aäöü\U0001F600", 5)
	f.Add("a\xff\xc3", 2)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = max(0, limit)
		got := Truncate(s, limit)
		if !utf8.ValidString(got) || len(got) > limit {
			t.Fatalf("String(%q, %d) is %q", s, limit, got)
		}
		if kept := strings.TrimSuffix(got, Ellipsis); utf8.ValidString(s) && !strings.HasPrefix(s, kept) {
			t.Fatalf("String(%q, %d) is %q, which is not how it begins", s, limit, got)
		}
	})
}
