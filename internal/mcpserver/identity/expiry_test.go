package identity

import (
	"encoding/base64"
	"testing"
	"time"
)

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
