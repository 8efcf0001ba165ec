package coderdtest

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// License describes a license to create. Only the server of this package accepts it.
type License struct {
	// UUID is the license's id. Zero means a new one. uuid.Max means none, as in the old format.
	UUID uuid.UUID
	// FeatureSet is premium, enterprise or empty.
	FeatureSet string
	// Features are additional features: 1 for enabled, or a limit.
	Features map[string]int64
	Trial    bool
	// Expires is the end of its term. Zero means one year from now.
	Expires time.Time
	// GraceEnds is the end of its grace period. Zero means Expires.
	GraceEnds time.Time
	// NotBefore is the begin of its term. Zero means two years before Expires.
	NotBefore time.Time
	// IssuedAt is when it was made. Zero means NotBefore. Coder refuses a license that was made in the future.
	IssuedAt time.Time
	// DeploymentIDs are the deployments that may use it. Empty means any.
	DeploymentIDs []string
}

// HeldLicense is a license that was added to the server.
type HeldLicense struct {
	codersdk.License
	Text string
}

type license struct {
	HeldLicense
	claims licenseClaims
}

// licenseClaims are the claims of Coder's licenses, version 3.
type licenseClaims struct {
	ID             string                         `json:"jti,omitempty"`
	Issuer         string                         `json:"iss,omitempty"`
	IssuedAt       int64                          `json:"iat,omitempty"`
	NotBefore      int64                          `json:"nbf,omitempty"`
	ExpiresAt      int64                          `json:"exp,omitempty"`
	LicenseExpires int64                          `json:"license_expires,omitempty"`
	AccountType    string                         `json:"account_type,omitempty"`
	AccountID      string                         `json:"account_id,omitempty"`
	DeploymentIDs  []string                       `json:"deployment_ids,omitempty"`
	Trial          bool                           `json:"trial"`
	FeatureSet     codersdk.FeatureSet            `json:"feature_set"`
	Version        uint64                         `json:"version"`
	Features       map[codersdk.FeatureName]int64 `json:"features"`
}

func (c licenseClaims) from() time.Time    { return time.Unix(c.NotBefore, 0) }
func (c licenseClaims) until() time.Time   { return time.Unix(c.ExpiresAt, 0) }
func (c licenseClaims) expires() time.Time { return time.Unix(c.LicenseExpires, 0) }

// NewLicense returns the text of a license.
func NewLicense(l License) string {
	if l.UUID == uuid.Nil {
		l.UUID = uuid.New()
	}
	if l.Expires.IsZero() {
		l.Expires = time.Now().AddDate(1, 0, 0)
	}
	if l.GraceEnds.IsZero() {
		l.GraceEnds = l.Expires
	}
	if l.NotBefore.IsZero() {
		l.NotBefore = l.Expires.AddDate(-2, 0, 0)
	}
	if l.IssuedAt.IsZero() {
		l.IssuedAt = l.NotBefore
	}
	claims := licenseClaims{
		ID: l.UUID.String(), Issuer: "coderdtest",
		IssuedAt: l.IssuedAt.Unix(), NotBefore: l.NotBefore.Unix(), ExpiresAt: l.GraceEnds.Unix(), LicenseExpires: l.Expires.Unix(),
		AccountType: "salesforce", AccountID: "coderdtest", DeploymentIDs: l.DeploymentIDs,
		Trial: l.Trial, FeatureSet: codersdk.FeatureSet(l.FeatureSet), Version: 3, Features: map[codersdk.FeatureName]int64{},
	}
	if l.UUID == uuid.Max {
		claims.ID = "7"
	}
	for name, value := range l.Features {
		claims.Features[codersdk.FeatureName(name)] = value
	}
	if os.Getenv(licensedURL) != "" {
		return ask[string]("/license", claims)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	unsigned := encode([]byte(`{"alg":"EdDSA","kid":"coderdtest","typ":"JWT"}`)) + "." + encode(payload)
	return unsigned + "." + licenseSignature(unsigned)
}

// licenseSignature replaces a signature: it detects changes, but does not authenticate the issuer.
func licenseSignature(unsigned string) string {
	sum := sha256.Sum256([]byte(unsigned))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Licenses returns the licenses in the order in which they were added.
func (s *Server) Licenses() []HeldLicense {
	if s.real != nil {
		return s.real.licenses()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []HeldLicense
	for _, l := range s.licenses {
		out = append(out, l.HeldLicense)
	}
	return out
}

// AddLicense adds a license, as another user of Coder would. It reports whether the server accepted
// it.
func (s *Server) AddLicense(text string) (taken bool) {
	if s.real != nil {
		return s.real.addLicense(text)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		if problem := recover(); problem != nil {
			if _, refused := problem.(refusal); !refused {
				panic(problem)
			}
		}
	}()
	s.insertLicense(text)
	return true
}

// RemoveLicense removes a license, as another user of Coder would. It reports whether the license
// existed.
func (s *Server) RemoveLicense(id int32) bool {
	if s.real != nil {
		return s.real.client.DeleteLicense(context.Background(), id) == nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.removeLicense(id)
}

func (s *Server) removeLicense(id int32) bool {
	before := len(s.licenses)
	s.licenses = slices.DeleteFunc(s.licenses, func(l *license) bool { return l.ID == id })
	return len(s.licenses) < before
}

func (s *Server) routeLicenses(open route) {
	// The AGPL build returns its error before it authenticates the request.
	closed := func(pattern string, handle handlerFunc) {
		open(pattern, func(r *request) { s.needsLicensing(); s.identify(r); handle(r) })
	}
	closed("GET /api/v2/licenses", s.getLicenses)
	closed("POST /api/v2/licenses", func(r *request) {
		r.needsRole("owner")
		body := read[codersdk.AddLicenseRequest](r)
		var v validation
		v.check(body.License != "", "license", "required", body.License)
		v.refuse()
		r.write(http.StatusCreated, s.insertLicense(body.License).License)
	})
	closed("DELETE /api/v2/licenses/{license}", s.deleteLicense)
}

func (s *Server) getLicenses(r *request) {
	// Coder encodes an empty list as null.
	var out []codersdk.License
	for _, l := range s.licenses {
		if r.user.has("owner") {
			out = append(out, l.License)
		}
	}
	r.write(http.StatusOK, out)
}

func (s *Server) deleteLicense(r *request) {
	id, err := strconv.ParseInt(r.PathValue("license"), 10, 32)
	if err != nil {
		refuse(http.StatusNotFound, "License ID must be an integer")
	}
	r.needsRole("owner")
	if !s.removeLicense(int32(id)) {
		refuse(http.StatusNotFound, "Unknown license ID")
	}
	r.w.WriteHeader(http.StatusOK)
}

func (s *Server) insertLicense(text string) *license {
	claims, raw := s.checkLicense(text)
	if len(claims.DeploymentIDs) > 0 && !slices.Contains(claims.DeploymentIDs, s.deploymentID.String()) {
		refuseDetailed(http.StatusBadRequest, "License cannot be used on this deployment!", fmt.Sprintf(
			"The provided license is locked to the following deployments: %q. Your deployment identifier is %q. Please contact sales.",
			claims.DeploymentIDs, s.deploymentID))
	}
	for _, l := range s.licenses {
		if l.Text == text {
			refuseDetailed(http.StatusInternalServerError, "Unable to add license to database", duplicate("licenses_jwt_key"))
		}
	}
	id, err := uuid.Parse(claims.ID)
	if err != nil {
		id = uuid.New()
	}
	s.lastLicense++
	held := HeldLicense{License: codersdk.License{ID: s.lastLicense, UUID: id, UploadedAt: s.now(), Claims: raw}, Text: text}
	l := &license{HeldLicense: held, claims: claims}
	s.licenses = append(s.licenses, l)
	return l
}

// checkLicense validates a license as Coder does.
func (s *Server) checkLicense(text string) (claims licenseClaims, raw map[string]any) {
	unusable := func(detail string) { refuseDetailed(http.StatusBadRequest, "Invalid license", detail) }
	const anything = "license has multiple issues; contact support"
	parts := strings.Split(text, ".")
	if len(parts) != 3 || licenseSignature(parts[0]+"."+parts[1]) != parts[2] {
		unusable(anything)
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, &claims) != nil {
		unusable(anything)
	}
	decoder := json.NewDecoder(strings.NewReader(string(payload)))
	decoder.UseNumber()
	if decoder.Decode(&raw) != nil {
		unusable(anything)
	}
	now := s.clock.Now()
	switch {
	case claims.ExpiresAt != 0 && !claims.until().After(now), time.Unix(claims.IssuedAt, 0).After(now):
		unusable(anything)
	case claims.Version != 3:
		unusable("license must be version 3")
	case claims.IssuedAt == 0:
		unusable("license has invalid or missing iat (issued at) claim")
	case claims.NotBefore == 0:
		unusable("license has invalid or missing nbf (not before) claim")
	case claims.LicenseExpires == 0 || claims.expires().After(now.Add(5*365*24*time.Hour)):
		unusable("license has invalid or missing license_expires claim")
	case claims.ExpiresAt == 0:
		unusable("license has invalid or missing exp (expires at) claim")
	case claims.AccountType == "":
		unusable("license must contain valid account type")
	case claims.AccountID == "":
		unusable("license must contain valid account ID")
	}
	return claims, raw
}
