package identity

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// lastExpiry is later than the expiry of any token, and does not overflow in calculations.
var lastExpiry = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// expiry returns the value of the token's exp claim. The caller must have verified the
// token. It returns the zero time if the token is not a JWT or has no such claim.
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
