package coderdtest

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// Proxy is a workspace proxy of the server.
type Proxy struct {
	ID                      uuid.UUID
	Name, DisplayName, Icon string
	// Token is the current token. Coder itself stores only a hash of it.
	Token string
	// URL and WildcardHostname are the values from the proxy's registration.
	URL, WildcardHostname string
	// Status is ok, unreachable, unhealthy or unregistered.
	Status string
}

type proxy struct {
	codersdk.WorkspaceProxy
	token string
}

func (p *proxy) state() Proxy {
	return Proxy{
		ID: p.ID, Name: p.Name, DisplayName: p.DisplayName, Icon: p.IconURL, Token: p.token,
		URL: p.PathAppURL, WildcardHostname: p.WildcardHostname, Status: string(p.Status.Status),
	}
}

// check sets the result of Coder's health check.
func (p *proxy) check(status codersdk.ProxyHealthStatus) {
	p.Healthy, p.Status.Status = status == codersdk.ProxyHealthy, status
	p.Status.Report = codersdk.ProxyHealthReport{Errors: []string{}, Warnings: []string{}}
}

// Proxies returns the workspace proxies that are not deleted, without the primary one (Coder
// itself).
func (s *Server) Proxies() []Proxy {
	if s.real != nil {
		return s.real.proxies()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Proxy
	for _, p := range s.proxies {
		if !p.Deleted {
			out = append(out, p.state())
		}
	}
	return out
}

// AddProxy adds a workspace proxy, as another user of Coder would. It needs no license.
func (s *Server) AddProxy(name, displayName, icon string) Proxy {
	if s.real != nil {
		return s.real.addProxy(name, displayName, icon)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.insertProxy(name, displayName, icon).state()
}

// RegisterProxy registers a workspace proxy with its token. It reports whether the server accepts
// the token.
func (s *Server) RegisterProxy(token, url, wildcardHostname string) bool {
	if s.real != nil {
		return s.real.registerProxy(token, url, wildcardHostname)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.liveProxy(func(p *proxy) bool { return p.token == token })
	if p != nil {
		p.PathAppURL, p.WildcardHostname, p.Version = url, wildcardHostname, string(s.release)
		p.check(codersdk.ProxyHealthy)
	}
	return p != nil
}

// StartProxy starts a workspace proxy with its token, which the server must accept.
func (s *Server) StartProxy(token string) {
	if s.real != nil {
		ask[struct{}]("/proxy", map[string]string{"URL": s.real.url, "Token": token})
		return
	}
	s.RegisterProxy(token, "http://127.0.0.1", "")
}

// AddReplica returns the URL of another replica of the server. Only a real Coder has several.
func (s *Server) AddReplica() string {
	if s.real != nil {
		return ask[string]("/replica", s.real.url)
	}
	return s.URL
}

// RemoveProxy removes a workspace proxy, as another user of Coder would. It reports whether the
// proxy existed.
func (s *Server) RemoveProxy(name string) bool {
	if s.real != nil {
		return s.real.removeProxy(name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.proxyNamed(name)
	if p != nil {
		p.Deleted = true
	}
	return p != nil
}

// liveProxy returns the first proxy that fits and is not deleted, or nil.
func (s *Server) liveProxy(fits func(*proxy) bool) *proxy {
	return first(s.proxies, func(p *proxy) bool { return !p.Deleted && fits(p) })
}

// proxyNamed is case-sensitive, as Coder's lookup by name is.
func (s *Server) proxyNamed(name string) *proxy {
	return s.liveProxy(func(p *proxy) bool { return p.Name == name })
}

func (s *Server) proxyNameTaken(name string, except *proxy) bool {
	return s.liveProxy(func(p *proxy) bool { return p != except && strings.EqualFold(p.Name, name) }) != nil
}

func (s *Server) insertProxy(name, displayName, icon string) *proxy {
	now, id := s.now(), uuid.New()
	p := &proxy{token: proxyToken(id), WorkspaceProxy: codersdk.WorkspaceProxy{
		Region:      codersdk.Region{ID: id, Name: name, DisplayName: displayName, IconURL: icon},
		DerpEnabled: true, CreatedAt: now, UpdatedAt: now, Status: codersdk.WorkspaceProxyStatus{CheckedAt: now},
	}}
	p.check(codersdk.ProxyUnregistered)
	s.proxies = append(s.proxies, p)
	return p
}

func proxyToken(id uuid.UUID) string { return id.String() + ":" + secretOf(64) }

func (s *Server) routeProxies(open route) {
	// Coder checks the license before the user.
	licensed := func(pattern string, handle handlerFunc) {
		open(pattern, func(r *request) {
			s.needsLicensing()
			s.needsFeature(codersdk.FeatureWorkspaceProxy)
			handle(r)
		})
	}
	closed := func(pattern string, handle handlerFunc) {
		licensed(pattern, func(r *request) { s.identify(r); handle(r) })
	}
	closed("POST /api/v2/workspaceproxies", s.postProxy)
	closed("GET /api/v2/workspaceproxies/{proxy}", func(r *request) {
		p := s.pathProxy(r)
		if p == nil {
			r.write(http.StatusOK, s.primaryProxy())
			return
		}
		r.write(http.StatusOK, p.WorkspaceProxy)
	})
	closed("PATCH /api/v2/workspaceproxies/{proxy}", s.patchProxy)
	closed("DELETE /api/v2/workspaceproxies/{proxy}", s.deleteProxy)
	licensed("GET /api/v2/workspaceproxies/me/crypto-keys", s.getCryptoKeys)
}

// pathProxy returns the proxy in the path, by name or id. It returns nil for the primary proxy
// (Coder itself). A deleted proxy is found by its id only.
func (s *Server) pathProxy(r *request) *proxy {
	query := r.PathValue("proxy")
	if query == "primary" || query == s.deploymentID.String() {
		return nil
	}
	found := s.proxyNamed(query)
	if id, err := uuid.Parse(query); err == nil {
		found = first(s.proxies, func(p *proxy) bool { return p.ID == id })
	}
	if found == nil {
		notFound()
	}
	return found
}

func (s *Server) postProxy(r *request) {
	body := read[codersdk.CreateWorkspaceProxyRequest](r)
	var v validation
	v.check(body.Name != "", "name", "required", body.Name)
	v.refuse()
	switch {
	case strings.EqualFold(body.Name, "primary"):
		refuseDetailed(http.StatusBadRequest, `The name "primary" is reserved for the primary region.`, "Cannot name a workspace proxy 'primary'.",
			codersdk.ValidationError{Field: "name", Detail: "Reserved name"})
	case !r.user.has("owner"):
		mayNot()
	case s.proxyNameTaken(body.Name, nil):
		refuse(http.StatusConflict, fmt.Sprintf("Workspace proxy with name %q already exists.", body.Name))
	}
	p := s.insertProxy(body.Name, body.DisplayName, body.Icon)
	r.write(http.StatusCreated, codersdk.UpdateWorkspaceProxyResponse{Proxy: p.WorkspaceProxy, ProxyToken: p.token})
}

func (s *Server) patchProxy(r *request) {
	p := s.pathProxy(r)
	body := read[codersdk.PatchWorkspaceProxy](r)
	var v validation
	v.check(body.ID != uuid.Nil, "id", "required", body.ID)
	v.check(body.Name != "", "name", "required", body.Name)
	v.check(body.DisplayName != "", "display_name", "required", body.DisplayName)
	v.check(body.Icon != "", "icon", "required", body.Icon)
	v.refuse()
	switch {
	case p == nil && body.Name != "primary":
		refuse(http.StatusBadRequest, "Cannot update name of default primary proxy, did you mean to update the 'display name'?",
			codersdk.ValidationError{Field: "name", Detail: "Cannot update name of default primary proxy"})
	case p == nil:
		r.write(http.StatusOK, codersdk.UpdateWorkspaceProxyResponse{Proxy: s.primaryProxy()})
		return
	case !r.user.has("owner"):
		notFound()
	case !p.Deleted && s.proxyNameTaken(body.Name, p):
		internalError(duplicate("workspace_proxies_lower_name_idx"))
	}
	p.Name, p.DisplayName, p.IconURL, p.UpdatedAt = body.Name, body.DisplayName, body.Icon, s.now()
	answer := codersdk.UpdateWorkspaceProxyResponse{}
	if body.RegenerateToken {
		p.token = proxyToken(p.ID)
		answer.ProxyToken = p.token
	}
	answer.Proxy = p.WorkspaceProxy
	r.write(http.StatusOK, answer)
}

func (s *Server) deleteProxy(r *request) {
	p := s.pathProxy(r)
	switch {
	case p == nil:
		refuse(http.StatusBadRequest, "Cannot delete primary proxy")
	case !r.user.has("owner"):
		notFound()
	}
	p.Deleted, p.UpdatedAt = true, s.now()
	r.write(http.StatusOK, codersdk.Response{Message: "Proxy has been deleted!"})
}

// getCryptoKeys returns no keys, but validates the request as Coder does.
func (s *Server) getCryptoKeys(r *request) {
	s.identifyProxy(r)
	switch feature := r.URL.Query().Get("feature"); feature {
	case "":
		refuse(http.StatusBadRequest, "Missing feature query parameter.")
	case "workspace_apps_token", "workspace_apps_api_key":
		r.write(http.StatusOK, map[string]any{"crypto_keys": []any{}})
	default:
		refuse(http.StatusBadRequest, fmt.Sprintf("Invalid feature: %q", feature))
	}
}

func (s *Server) identifyProxy(r *request) {
	token := r.Header.Get("Coder-External-Proxy-Token")
	if token == "" {
		refuse(http.StatusUnauthorized, "Missing required external proxy token")
	}
	wrong := func(detail string) {
		refuseDetailed(http.StatusUnauthorized, "Invalid external proxy token", detail)
	}
	parts := strings.Split(token, ":")
	if len(parts) != 2 || uuid.Validate(parts[0]) != nil || len(parts[1]) != 64 {
		wrong("")
	}
	p := first(s.proxies, func(p *proxy) bool { return p.ID.String() == parts[0] })
	switch {
	case p == nil:
		wrong("Proxy not found.")
	case p.Deleted:
		wrong("Proxy has been deleted.")
	case p.token != token:
		wrong("Invalid proxy token secret.")
	}
}

func (s *Server) primaryProxy() codersdk.WorkspaceProxy {
	now := s.clock.Now()
	return codersdk.WorkspaceProxy{
		Region: codersdk.Region{
			ID: s.deploymentID, Name: "primary", DisplayName: "Default", IconURL: "/emojis/1f3e1.png", Healthy: true, PathAppURL: s.URL,
		},
		Status: codersdk.WorkspaceProxyStatus{
			Status: codersdk.ProxyHealthy, CheckedAt: now, Report: codersdk.ProxyHealthReport{Errors: []string{}, Warnings: []string{}},
		},
		CreatedAt: now, UpdatedAt: now,
	}
}
