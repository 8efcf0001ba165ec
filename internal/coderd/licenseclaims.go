package coderd

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"
)

// LicenseClaims is what a license says about itself. A claim that is missing or
// not of its type has the zero value.
type LicenseClaims struct {
	// UUID names the license. Old ones have none.
	UUID uuid.UUID
	// NotBefore is when it begins to count.
	NotBefore *time.Time
	// ExpiresAt is when its term ends, and the grace period begins.
	ExpiresAt *time.Time
	// GraceEndsAt is when it stops to count. It is ExpiresAt where there is no
	// grace period.
	GraceEndsAt *time.Time
	Trial       bool
	// FeatureSet is premium, enterprise or empty.
	FeatureSet string
	// Features are those that the license names besides its set, and their values.
	Features map[string]int64
	// DeploymentIDs are the deployments that may use it. None means any.
	DeploymentIDs []string

	// raw is all of the claims, as JSON with sorted keys.
	raw []byte
}

// errNoLicense never repeats what it is about, since a license is a secret.
var errNoLicense = errors.New("not a license: it must be a JSON web token, " +
	"three parts with dots between them of which the second holds the claims; copy the whole text that Coder sent you")

// Identity names the license by its claims alone: the UUID in them, or one that
// is made of them. Coder gives a license without a UUID one by chance, which
// nobody can know before.
func (c LicenseClaims) Identity() uuid.UUID {
	if c.UUID != uuid.Nil {
		return c.UUID
	}
	return uuid.NewSHA1(uuid.NameSpaceOID, c.raw)
}

// ParseLicense reads the claims of a license's text. It does not check the
// signature; Coder does when it is given the license. White space around the
// text does not matter.
func ParseLicense(jwt string) (LicenseClaims, error) {
	parts := strings.Split(strings.TrimSpace(jwt), ".")
	if len(parts) != 3 {
		return LicenseClaims{}, errNoLicense
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return LicenseClaims{}, errNoLicense
	}
	claims := newLicenseClaims(payload)
	if claims.raw == nil {
		return LicenseClaims{}, errNoLicense
	}
	return claims, nil
}

// newLicenseClaims reads claims. There are none where raw is nil afterwards.
func newLicenseClaims(payload []byte) LicenseClaims {
	decoder := json.NewDecoder(bytes.NewReader(payload))
	// A number must come out as it went in, to compare equal.
	decoder.UseNumber()
	var all map[string]any
	if decoder.Decode(&all) != nil || all == nil {
		return LicenseClaims{}
	}
	out := LicenseClaims{
		NotBefore:   numericDate(all["nbf"]),
		ExpiresAt:   numericDate(all["license_expires"]),
		GraceEndsAt: numericDate(all["exp"]),
		Features:    map[string]int64{},
	}
	out.raw, _ = json.Marshal(all)
	if id, ok := all["jti"].(string); ok {
		out.UUID, _ = uuid.Parse(id)
	}
	out.Trial, _ = all["trial"].(bool)
	out.FeatureSet, _ = all["feature_set"].(string)
	out.FeatureSet = boundName(out.FeatureSet)
	if everything, _ := all["all_features"].(bool); everything && out.FeatureSet == "" {
		// This is how licenses said it before there were sets.
		out.FeatureSet = "enterprise"
	}
	features, _ := all["features"].(map[string]any)
	for name, value := range features {
		if number, ok := value.(json.Number); ok {
			out.Features[name], _ = number.Int64()
		}
	}
	deployments, _ := all["deployment_ids"].([]any)
	for _, value := range deployments {
		if id, ok := value.(string); ok {
			out.DeploymentIDs = append(out.DeploymentIDs, id)
		}
	}
	return out
}

// numericDate reads seconds since 1970, of which a web token may have fractions.
func numericDate(claim any) *time.Time {
	number, ok := claim.(json.Number)
	if !ok {
		return nil
	}
	seconds, err := number.Float64()
	if err != nil {
		return nil
	}
	at := time.Unix(int64(seconds), 0).UTC()
	return &at
}
