package coderdtest

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/coder/coder/v2/codersdk"
)

// WithLicensing makes the server behave like the build of Coder that supports licenses. Without it
// the server behaves like the AGPL build, which has no endpoints for licensed features.
func WithLicensing() Option { return func(s *Server) { s.licensing = true } }

// SetFeature overrides the entitlement of a feature: entitled, grace_period or not_entitled. An
// empty entitlement removes the override.
func (s *Server) SetFeature(name, entitlement string) {
	if s.real != nil {
		s.real.setFeature(codersdk.FeatureName(name), codersdk.Entitlement(entitlement))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if entitlement == "" {
		delete(s.features, codersdk.FeatureName(name))
		return
	}
	s.features[codersdk.FeatureName(name)] = codersdk.Entitlement(entitlement)
}

// SetEntitlements overrides the entitlements of these features and removes all other overrides. Nil
// removes all.
func (s *Server) SetEntitlements(features map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.features = map[codersdk.FeatureName]codersdk.Entitlement{}
	for name, entitlement := range features {
		s.features[codersdk.FeatureName(name)] = codersdk.Entitlement(entitlement)
	}
}

// needsLicensing refuses a request with the error of the AGPL build, unless the server supports
// licenses.
func (s *Server) needsLicensing() {
	if !s.licensing {
		routeNotFound()
	}
}

// needsFeature refuses a request with Coder's error if no license allows a feature.
func (s *Server) needsFeature(name codersdk.FeatureName) {
	if !s.entitlements().Features[name].Enabled {
		refuse(http.StatusForbidden, name.Humanize()+" is a Premium feature. Contact sales!")
	}
}

func (s *Server) routeLicensing(open, closed route) {
	open("GET /api/v2/entitlements", func(r *request) {
		s.needsLicensing()
		r.write(http.StatusOK, s.entitlements())
	})
	s.routeLicenses(open)
	closed("GET /api/v2/organizations/{organization}/groups/{group}", s.getGroup)
	s.routeProvisionerKeys(open, closed)
	s.routeProxies(open)
}

// featureServiceAccounts is a feature of the premium set that the client library does not know.
const featureServiceAccounts codersdk.FeatureName = "service_accounts"

// switchedOn reports whether this server enables a feature if a license allows it.
func switchedOn(name codersdk.FeatureName) bool {
	switch name {
	case codersdk.FeatureAuditLog, codersdk.FeatureTemplateRBAC, codersdk.FeatureAdvancedTemplateScheduling,
		codersdk.FeatureWorkspaceProxy, codersdk.FeatureUserRoleManagement, codersdk.FeatureAccessControl, codersdk.FeatureControlSharedPorts,
		featureServiceAccounts:
		return true
	}
	return name.AlwaysEnable()
}

// entitlements computes what the licenses allow at the current time.
func (s *Server) entitlements() codersdk.Entitlements {
	now, users := s.clock.Now(), int64(len(s.users))
	out := codersdk.Entitlements{
		Features: map[codersdk.FeatureName]codersdk.Feature{
			codersdk.FeatureUserLimit: {Entitlement: codersdk.EntitlementNotEntitled, Actual: &users},
		},
		Warnings: []string{}, Errors: []string{}, RefreshedAt: now,
	}
	for _, name := range codersdk.FeatureNames {
		out.AddFeature(name, codersdk.Feature{Entitlement: codersdk.EntitlementNotEntitled})
	}
	if s.has(serviceAccounts) {
		out.AddFeature(featureServiceAccounts, codersdk.Feature{Entitlement: codersdk.EntitlementNotEntitled})
	}
	for _, l := range s.licenses {
		if !l.claims.until().After(now) || l.claims.from().After(now) {
			continue
		}
		out.HasLicense, out.Trial = true, l.claims.Trial
		addFeatures(&out, l.claims, now)
	}
	for name, entitlement := range s.features {
		out.Features[name] = codersdk.Feature{Entitlement: entitlement, Enabled: entitlement.Entitled()}
		out.HasLicense = out.HasLicense || entitlement.Entitled()
	}
	return out
}

func addFeatures(out *codersdk.Entitlements, claims licenseClaims, now time.Time) {
	entitlement := codersdk.EntitlementEntitled
	if now.After(claims.expires()) {
		entitlement = codersdk.EntitlementGracePeriod
	}
	for _, name := range claims.FeatureSet.Features() {
		if !name.UsesLimit() && !name.UsesUsagePeriod() {
			out.AddFeature(name, codersdk.Feature{Entitlement: entitlement, Enabled: switchedOn(name)})
		}
	}
	if _, known := out.Features[featureServiceAccounts]; known && claims.FeatureSet == codersdk.FeatureSetPremium {
		out.AddFeature(featureServiceAccounts, codersdk.Feature{Entitlement: entitlement, Enabled: true})
	}
	for name, value := range claims.Features {
		switch {
		case value <= 0 || out.Features[name].Entitlement == "" || name.UsesUsagePeriod():
			// Coder ignores unknown features.
		case name.UsesLimit():
			limit := value
			out.AddFeature(name, codersdk.Feature{Entitlement: entitlement, Enabled: true, Limit: &limit, Actual: out.Features[name].Actual})
		default:
			out.Features[name] = codersdk.Feature{Entitlement: entitlement, Enabled: switchedOn(name)}
		}
	}
}

// internalError refuses a request with Coder's error for a failed database call.
func internalError(detail string) {
	refuseDetailed(http.StatusInternalServerError, "An internal server error occurred.", detail)
}

// mayNot refuses a request with Coder's error for a write that its database layer does not permit.
func mayNot() { internalError("unauthorized: rbac: forbidden") }

func duplicate(index string) string {
	return fmt.Sprintf("pq: duplicate key value violates unique constraint %q", index)
}

// secretOf returns a random text of the given length.
func secretOf(length int) string {
	var b strings.Builder
	for b.Len() < length {
		b.WriteString(rand.Text())
	}
	return b.String()[:length]
}
