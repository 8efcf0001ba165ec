package callers

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestBearerToken(t *testing.T) {
	tests := map[string]struct {
		headers []string
		want    string
	}{
		"a token":                  {[]string{"Bearer abc.DEF-1_2~3+4/5=="}, "abc.DEF-1_2~3+4/5=="},
		"the scheme in capitals":   {[]string{"BEARER abc"}, "abc"},
		"more spaces":              {[]string{"Bearer   abc "}, "abc"},
		"no header":                {nil, ""},
		"an empty header":          {[]string{""}, ""},
		"no token":                 {[]string{"Bearer"}, ""},
		"an empty token":           {[]string{"Bearer "}, ""},
		"no scheme":                {[]string{"abc"}, ""},
		"another scheme":           {[]string{"Basic abc"}, ""},
		"a scheme that begins so":  {[]string{"Bearers abc"}, ""},
		"a space before":           {[]string{" Bearer abc"}, ""},
		"a tab between":            {[]string{"Bearer\tabc"}, ""},
		"two tokens in one header": {[]string{"Bearer abc def"}, ""},
		"two tokens with a comma":  {[]string{"Bearer abc,Bearer def"}, ""},
		"two headers":              {[]string{"Bearer abc", "Bearer abc"}, ""},
		"two headers, one empty":   {[]string{"Bearer abc", ""}, ""},
		"equals in the middle":     {[]string{"Bearer ab=c"}, ""},
		"equals alone":             {[]string{"Bearer =="}, ""},
		"a quote":                  {[]string{`Bearer "abc"`}, ""},
		"a line break":             {[]string{"Bearer abc\nX: y"}, ""},
		"no ASCII":                 {[]string{"Bearer äbc"}, ""},
		"the longest":              {[]string{"Bearer " + strings.Repeat("a", maxTokenBytes)}, strings.Repeat("a", maxTokenBytes)},
		"one too long":             {[]string{"Bearer " + strings.Repeat("a", maxTokenBytes+1)}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok := bearerToken(&http.Request{Header: http.Header{"Authorization": tc.headers}})
			if got != tc.want || ok != (tc.want != "") {
				t.Errorf("the token is %q, %v, want %q", got, ok, tc.want)
			}
		})
	}
}

func FuzzBearerToken(f *testing.F) {
	for _, seed := range []string{"Bearer abc", "bearer a.b.c=", "Basic x", "Bearer a b", "Bearer \x00", "", "Bearer =", "Bearer\tx"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		token, ok := bearerToken(&http.Request{Header: http.Header{"Authorization": {value}}})
		if !ok {
			if token != "" {
				t.Errorf("no token, and yet %q", token)
			}
			return
		}
		if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`,"\;:`, r) }) {
			t.Errorf("%q is taken for a token", token)
		}
		scheme, rest, _ := strings.Cut(value, " ")
		if !strings.EqualFold(scheme, "bearer") || strings.Trim(rest, " ") != token {
			t.Errorf("the token of %q is %q", value, token)
		}
		if again, ok := bearerToken(&http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}}); !ok || again != token {
			t.Errorf("%q is read as %q the second time", token, again)
		}
	})
}

func TestExpiry(t *testing.T) {
	jwt := func(claims string) string {
		return "h." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".s"
	}
	for name, tc := range map[string]struct {
		token string
		want  time.Time
	}{
		"a JWT":                         {jwt(`{"exp":1700000000}`), time.Unix(1700000000, 0)},
		"with a fraction":               {jwt(`{"exp":1700000000.9}`), time.Unix(1700000000, 0)},
		"with an end beyond all":        {jwt(`{"exp":1e300}`), lastExpiry},
		"without an end":                {jwt(`{"sub":"alice"}`), time.Time{}},
		"with a negative one":           {jwt(`{"exp":-1}`), time.Time{}},
		"with one that is no number":    {jwt(`{"exp":"soon"}`), time.Time{}},
		"that is no JSON":               {jwt(`exp`), time.Time{}},
		"that is no base64":             {"h.$$$.s", time.Time{}},
		"a token of two parts":          {"abcdef.0123456789abcdef", time.Time{}},
		"a token that means nothing":    {"opaque", time.Time{}},
		"a token of four parts":         {jwt(`{"exp":1}`) + ".x", time.Time{}},
		"a number that is out of range": {jwt(`{"exp":1e400}`), time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := expiry(tc.token); !got.Equal(tc.want) {
				t.Errorf("the token ends at %s, want %s", got, tc.want)
			}
		})
	}
}
