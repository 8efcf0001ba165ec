package identity

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// lastExpiry is beyond any token's end, and can be reckoned with.
var lastExpiry = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// expiry is when the token ends by its own claim, which can be believed only
// where the token has been verified. It is zero for a token that is no JWT or does
// not say.
func expiry(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Expiry float64 `json:"exp"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil || claims.Expiry <= 0 {
		return time.Time{}
	}
	if claims.Expiry >= float64(lastExpiry.Unix()) {
		return lastExpiry
	}
	return time.Unix(int64(claims.Expiry), 0)
}
