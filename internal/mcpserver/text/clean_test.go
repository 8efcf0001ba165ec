package text

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// Invisible characters inside of a secret do not prevent its redaction.
func TestHiddenSecretsAreReplaced(t *testing.T) {
	for in, want := range map[string]string{
		"pass\x1b[31mword=hunter\x1b[0m": "password=[redacted]",
		"pass\u200bword=hunter":          "password=[redacted]",
		"password=\u202ehunter":          "password=[redacted]",
		"-----BEGIN \x1b[1mPRIVATE\x1b[0m KEY-----\r\nMIIE\r\n-----END PRIVATE KEY-----\r\n": "[redacted]\n",
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestTextIsReadable(t *testing.T) {
	tests := map[string]string{
		"\x1b[1;31mred\x1b[0m \x1b[38;5;4mblue\x1b[K":            "red blue",
		"\x1b]0;title\aa\x1b]8;;http://x\x1b\\link":              "alink",
		"\u009b31mred \u009d0;title\u009cb":                      "red b",
		"\x1bPdcs\x1b\\a \x1b_apc\x1b\\b \x1b^pm\x1b\\":          "a b ",
		"\x1b]0;no end\nnext":                                    "0;no end\nnext",
		"\x1b]0;no end":                                          "0;no end",
		"\x1b(Bascii \x1bMup \x1b":                               "ascii up ",
		"\x1b[31":                                                "",
		"a\r\nb\rc\u2028d\u2029e\u0085f":                         "a\nb\nc\nd\ne\nf",
		"bell\a nul\x00 del\x7f back\b":                          "bell nul del back",
		"bidi\u202e zero\u200b\ufeff tag\U000e0041 vs\U000e0101": "bidi zero tag vs",
		"bad\xff\xfe utf8\xc3":                                   "bad\ufffd utf8\ufffd",
		"tab\tstays":                                             "tab\tstays",
	}
	for in, want := range tests {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}

const sampleJWT = "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6YSJ9.c2lnbmF0dXJlLW9mLXRoZS10b2tlbg"

func FuzzClean(f *testing.F) {
	for _, part := range []string{"\x1b", "\x1b]", "\x1b[", "\u009d", "\x1b[3", "\r", "\xff", "token=", "://a:"} {
		f.Add(strings.Repeat(part, 20))
	}
	f.Add("a\n" + sampleJWT + "\npassword=\"x\" postgres://a:b@c")
	f.Fuzz(func(t *testing.T, s string) {
		got := Clean(s + "\n" + sampleJWT + "\n")
		if !utf8.ValidString(got) {
			t.Errorf("%q is not UTF-8", got)
		}
		for _, r := range got {
			if r != '\n' && r != '\t' && unicode.IsControl(r) {
				t.Errorf("%q holds %q", got, r)
			}
		}
		if strings.Contains(got, sampleJWT) {
			t.Errorf("%q holds the token", got)
		}
		if len(got) > 12*(len(s)+len(sampleJWT)+2) {
			t.Errorf("%d bytes became %d", len(s), len(got))
		}
	})
}

// BenchmarkClean cleans 64 KiB of a typical log.
func BenchmarkClean(b *testing.B) {
	line := `2026-11-21 17:56:34.123 [info]  coderd: GET  host=coder.example.com  path=/api/v2/workspaces  proto=HTTP/1.1  remote_addr=10.0.0.7  status_code=200  latency_ms=3  request_id=0f8fad5b-d9cb-469f-a165-70867728950e` + "\n"
	s := strings.Repeat(line, 64<<10/len(line))
	b.SetBytes(int64(len(s)))
	for b.Loop() {
		Clean(s)
	}
}
