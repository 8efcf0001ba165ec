package coderdtest

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// setFeature replaces the licenses with which the test allows features.
func (r *real) setFeature(name codersdk.FeatureName, entitlement codersdk.Entitlement) {
	ctx, now := context.Background(), time.Now()
	r.features[name] = entitlement
	for _, id := range r.granted {
		_ = r.client.DeleteLicense(ctx, id)
	}
	r.granted = nil
	for entitlement, expires := range map[codersdk.Entitlement]time.Time{
		codersdk.EntitlementEntitled: now.AddDate(0, 1, 0), codersdk.EntitlementGracePeriod: now.Add(-time.Hour),
	} {
		features := map[string]int64{}
		for name, set := range r.features {
			if set == entitlement {
				features[string(name)] = 1
			}
		}
		if len(features) > 0 {
			text := NewLicense(License{Features: features, Expires: expires, GraceEnds: now.AddDate(0, 2, 0)})
			r.granted = append(r.granted, sure(r.client.AddLicense(ctx, codersdk.AddLicenseRequest{License: text})).ID)
		}
	}
}

func (r *real) addLicense(text string) bool {
	added, err := r.client.AddLicense(context.Background(), codersdk.AddLicenseRequest{License: text})
	if err == nil {
		r.keep(fmtID(added.ID), text)
	}
	return err == nil
}

func (r *real) revokeToken(value string) bool {
	client := codersdk.New(r.client.URL)
	client.SetSessionToken(value)
	id, _, _ := strings.Cut(value, "-")
	return client.DeleteAPIKey(context.Background(), codersdk.Me, id) == nil
}

func (r *real) noteProxy(answer []byte) {
	var said codersdk.UpdateWorkspaceProxyResponse
	_ = json.Unmarshal(answer, &said)
	r.keep(said.Proxy.ID.String(), said.ProxyToken)
}

func (r *real) proxies() (out []Proxy) {
	r.licensed(codersdk.FeatureWorkspaceProxy, func(ctx context.Context) {
		all := sure(r.client.WorkspaceProxies(ctx)).Regions
		slices.SortFunc(all, func(a, b codersdk.WorkspaceProxy) int { return a.CreatedAt.Compare(b.CreatedAt) })
		for _, p := range all {
			if p.Name != "primary" && !p.Deleted {
				out = append(out, (&proxy{p, r.text(p.ID.String())}).state())
			}
		}
	})
	return out
}

func (r *real) proxyNamed(name string) (found Proxy) {
	all := r.proxies()
	if i := slices.IndexFunc(all, func(p Proxy) bool { return p.Name == name }); i >= 0 {
		found = all[i]
	}
	return found
}

func (r *real) addProxy(name, displayName, icon string) Proxy {
	r.licensed(codersdk.FeatureWorkspaceProxy, func(ctx context.Context) {
		made := sure(r.client.CreateWorkspaceProxy(ctx, codersdk.CreateWorkspaceProxyRequest{Name: name, DisplayName: displayName, Icon: icon}))
		r.keep(made.Proxy.ID.String(), made.ProxyToken)
	})
	return r.proxyNamed(name)
}

func (r *real) removeProxy(name string) (removed bool) {
	id := r.proxyNamed(name).ID
	r.licensed(codersdk.FeatureWorkspaceProxy, func(ctx context.Context) { removed = r.client.DeleteWorkspaceProxyByID(ctx, id) == nil })
	return removed
}

// registerProxy registers as a workspace proxy does when it starts.
func (r *real) registerProxy(token, accessURL, wildcardHostname string) bool {
	body := encoded(map[string]any{
		"access_url": accessURL, "wildcard_hostname": wildcardHostname, "replica_id": uuid.New(), "replica_hostname": "test", "version": "v2.36.1",
	})
	req := sure(http.NewRequest(http.MethodPost, r.url+"/api/v2/workspaceproxies/me/register", bytes.NewReader(body))) //nolint:noctx // Only tests use it.
	req.Header.Set("Coder-External-Proxy-Token", token)
	res := sure(http.DefaultClient.Do(req)) //nolint:bodyclose // It is closed below.
	defer func() { _ = res.Body.Close() }()
	return res.StatusCode == http.StatusCreated
}

func (r *real) patchTemplate(id uuid.UUID, fields []byte) {
	res := sure(r.client.Request(context.Background(), http.MethodPatch, "/api/v2/templates/"+id.String(), fields)) //nolint:bodyclose // It is closed below.
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		panic(codersdk.ReadBodyAsError(res))
	}
}
