package coderdtest

import (
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"
	"k8s.io/utils/clock"
)

// Server is a fake Coder for tests. All methods are safe for concurrent use.
type Server struct {
	// URL is the base URL of the server.
	URL string

	clock              clock.PassiveClock
	release            Release
	later              Later
	manual             bool
	noPasswords        bool
	oidc               bool
	hostPrefixCookie   bool
	licensing          bool
	bare               bool
	ownerTokenLifetime time.Duration
	tokenLifetime      time.Duration
	deploymentID       uuid.UUID
	stopped            chan struct{}

	// real is the Coder that answers in place of this server, or nil.
	real *real

	// mu protects everything below. It is held while a request is handled.
	mu            sync.Mutex
	lastTime      time.Time
	counter       int
	index         index
	users         []*user
	keys          []*key
	organizations []*codersdk.Organization
	groups        map[uuid.UUID]*codersdk.Group
	templates     []*template
	versions      []*version
	files         []*file
	results       map[string]BuildResult
	// queued are the jobs that have not ended, jobs all that ever began.
	queued, jobs []*job
	lastLog      int64
	// agentLogs and agentWorkspaces contain the agents with log lines, by agent id.
	agentLogs       map[uuid.UUID]*agentLog
	agentWorkspaces map[uuid.UUID]*workspace
	// logged is closed and replaced when a line is written or a job ends.
	logged chan struct{}

	licenses        []*license
	lastLicense     int32
	features        map[codersdk.FeatureName]codersdk.Entitlement
	provisionerKeys []*ProvisionerKey
	daemons         []*codersdk.ProvisionerDaemon
	proxies         []*proxy

	// trafficMu protects the faults and counts, which must not wait for mu.
	trafficMu sync.Mutex
	latency   time.Duration
	faults    []*Fault
	requests  map[string]int
	received  []Received
}

// New starts a server without users. It stops when the test ends.
func New(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s := &Server{
		clock:              clock.RealClock{},
		release:            Release230,
		ownerTokenLifetime: 7 * 24 * time.Hour,
		tokenLifetime:      100 * 365 * 24 * time.Hour,
		deploymentID:       uuid.New(),
		stopped:            make(chan struct{}),
		logged:             make(chan struct{}),
		agentLogs:          map[uuid.UUID]*agentLog{},
		agentWorkspaces:    map[uuid.UUID]*workspace{},
		index:              newIndex(),
		results:            map[string]BuildResult{},
		features:           map[codersdk.FeatureName]codersdk.Entitlement{},
		requests:           map[string]int{},
	}
	for _, opt := range opts {
		opt(s)
	}
	s.addOrganization("coder", true)
	if s.licensing && os.Getenv(licensedURL) != "" {
		s.real = newReal(t, s.bare)
	}
	web := httptest.NewServer(s.handler())
	s.URL = web.URL
	t.Cleanup(func() {
		close(s.stopped)
		web.CloseClientConnections()
		web.Close()
	})
	return s
}

// now returns the server's time. It is strictly increasing and has the precision of Coder's
// database.
func (s *Server) now() time.Time {
	now := s.clock.Now().UTC().Truncate(time.Microsecond)
	if !now.After(s.lastTime) {
		now = s.lastTime.Add(time.Microsecond)
	}
	s.lastTime = now
	return now
}

// handler returns the router. The name of a request class is its pattern.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	open := func(pattern string, handle handlerFunc) { mux.HandleFunc(pattern, s.endpoint(pattern, handle, false)) }
	closed := func(pattern string, handle handlerFunc) { mux.HandleFunc(pattern, s.endpoint(pattern, handle, true)) }
	s.routes(open, closed)
	s.routeTemplates(closed)
	s.routeWorkspaces(closed)
	s.routeLicensing(open, closed)
	open("/", func(*request) { routeNotFound() })
	return mux
}

type route func(pattern string, handle handlerFunc)

// routes adds the routes of the deployment, its users and its organizations.
func (s *Server) routes(open, closed route) {
	open("GET /api/v2/buildinfo", s.getBuildInfo)

	open("GET /api/v2/users/first", s.getFirstUser)
	open("POST /api/v2/users/first", s.postFirstUser)
	open("POST /api/v2/users/login", s.postLogin)
	open("POST /api/v2/users/validate-password", postValidatePassword)
	closed("POST /api/v2/users/logout", s.postLogout)
	closed("POST /api/v2/users", s.postUser)
	closed("POST /api/v2/authcheck", s.postAuthCheck)
	closed("GET /api/v2/users", s.getUsers)
	closed("GET /api/v2/users/{user}", func(r *request) { r.write(http.StatusOK, s.pathUser(r).sdk()) })
	closed("DELETE /api/v2/users/{user}", s.deleteUser)
	closed("GET /api/v2/users/{user}/roles", s.getRoles)
	closed("PUT /api/v2/users/{user}/roles", s.putRoles)
	closed("PUT /api/v2/users/{user}/profile", s.putProfile)
	closed("PUT /api/v2/users/{user}/password", s.putPassword)
	closed("PUT /api/v2/users/{user}/status/suspend", func(r *request) { s.putStatus(r, true) })
	closed("PUT /api/v2/users/{user}/status/activate", func(r *request) { s.putStatus(r, false) })
	closed("POST /api/v2/users/{user}/keys/tokens", s.postToken)
	closed("GET /api/v2/users/{user}/keys/tokens", s.getTokens)
	closed("GET /api/v2/users/{user}/keys/tokens/tokenconfig", s.getTokenConfig)
	closed("GET /api/v2/users/{user}/keys/tokens/{name}", s.getTokenByName)
	closed("GET /api/v2/users/{user}/keys/{key}", s.getKey)
	closed("DELETE /api/v2/users/{user}/keys/{key}", s.deleteKey)

	closed("GET /api/v2/organizations", s.getOrganizations)
	closed("GET /api/v2/organizations/{organization}", func(r *request) { r.write(http.StatusOK, s.pathOrganization(r)) })
	closed("GET /api/v2/organizations/{organization}/members", s.getMembers)
	closed("POST /api/v2/organizations/{organization}/members/{user}", s.postMember)
	closed("DELETE /api/v2/organizations/{organization}/members/{user}", s.deleteMember)
	closed("PUT /api/v2/organizations/{organization}/members/{user}/roles", s.putMemberRoles)
	closed("GET /api/v2/organizations/{organization}/provisionerdaemons", s.getDaemons)
	closed("GET /api/v2/organizations/{organization}/provisionerjobs", s.getJobs)
}

func (s *Server) routeTemplates(closed route) {
	closed("POST /api/v2/files", s.postFile)
	closed("GET /api/v2/files/{file}", s.getFile)
	closed("GET /api/v2/templates", s.getTemplates)
	closed("GET /api/v2/organizations/{organization}/templates/{name}", s.getTemplateByName)
	closed("POST /api/v2/organizations/{organization}/templates", s.postTemplate)
	closed("GET /api/v2/templates/{template}", func(r *request) { r.write(http.StatusOK, s.pathTemplate(r).Template) })
	closed("PATCH /api/v2/templates/{template}", s.patchTemplate)
	closed("DELETE /api/v2/templates/{template}", s.deleteTemplate)
	closed("GET /api/v2/templates/{template}/versions", s.getVersions)
	closed("PATCH /api/v2/templates/{template}/versions", s.patchActiveVersion)
	closed("POST /api/v2/organizations/{organization}/templateversions", s.postVersion)
	closed("GET /api/v2/templateversions/{version}", func(r *request) { r.write(http.StatusOK, s.versionSDK(s.pathVersion(r))) })
	closed("GET /api/v2/templateversions/{version}/rich-parameters", s.getParameters)
	closed(evaluation, s.postEvaluate)
	closed("GET /api/v2/templateversions/{version}/presets", s.getPresets)
	closed("GET /api/v2/templateversions/{version}/variables", s.getVariables)
	closed("GET /api/v2/templateversions/{version}/logs", func(r *request) { s.getLogs(r, s.pathVersion(r).job) })
	closed("PATCH /api/v2/templateversions/{version}/cancel", func(r *request) { s.cancel(r, s.pathVersion(r).job) })
	closed("POST /api/v2/templateversions/{version}/archive", s.archiveVersion)
}

func (s *Server) routeWorkspaces(closed route) {
	closed("GET /api/v2/workspaces", s.getWorkspaces)
	closed("GET /api/v2/workspaces/{workspace}", s.getWorkspace)
	closed("GET /api/v2/users/{user}/workspace/{name}", s.getWorkspaceByName)
	closed("POST /api/v2/users/{user}/workspaces", s.postWorkspace)
	closed("PUT /api/v2/workspaces/{workspace}/ttl", s.putTTL)
	closed("PUT /api/v2/workspaces/{workspace}/autostart", s.putAutostart)
	closed("PUT /api/v2/workspaces/{workspace}/autoupdates", s.putAutomaticUpdates)
	closed("PUT /api/v2/workspaces/{workspace}/dormant", s.putDormant)
	closed("PATCH /api/v2/workspaces/{workspace}/acl", s.patchACL)
	closed("POST /api/v2/workspaces/{workspace}/builds", s.postBuild)
	closed("GET /api/v2/users/{user}/workspace/{name}/builds/{number}", s.getBuildByNumber)
	closed("GET /api/v2/workspacebuilds/{build}", s.getBuild)
	closed("GET /api/v2/workspacebuilds/{build}/parameters", s.getBuildParameters)
	closed("GET /api/v2/workspacebuilds/{build}/logs", s.getBuildLogs)
	closed("PATCH /api/v2/workspacebuilds/{build}/cancel", s.cancelBuild)
	closed("GET /api/v2/workspaceagents/{agent}", s.getAgent)
	closed("GET /api/v2/workspaceagents/{agent}/logs", s.getAgentLogs)
}

func (s *Server) getBuildInfo(r *request) {
	r.write(http.StatusOK, codersdk.BuildInfoResponse{
		ExternalURL:  "https://github.com/coder/coder",
		Version:      string(s.release),
		DashboardURL: s.URL,
		DeploymentID: s.deploymentID.String(),
	})
}

func (s *Server) addOrganization(name string, isDefault bool) *codersdk.Organization {
	now := s.now()
	org := &codersdk.Organization{
		MinimalOrganization: codersdk.MinimalOrganization{ID: uuid.New(), Name: name, DisplayName: name},
		CreatedAt:           now,
		UpdatedAt:           now,
		IsDefault:           isDefault,
	}
	s.organizations = append(s.organizations, org)
	return org
}

// Option configures a Server.
type Option func(*Server)

// WithClock sets the clock. The default is the real time.
func WithClock(c clock.PassiveClock) Option { return func(s *Server) { s.clock = c } }

// WithManualBuilds leaves each build pending until AdvanceBuilds or FinishBuilds. By default a
// build finishes right after the response to the request that queued it.
func WithManualBuilds() Option { return func(s *Server) { s.manual = true } }

// WithMaxTokenLifetimes sets the maximum lifetime of tokens of owners and of other users. The
// defaults are Coder's: 7 days and 100 years.
func WithMaxTokenLifetimes(owner, others time.Duration) Option {
	return func(s *Server) { s.ownerTokenLifetime, s.tokenLifetime = owner, others }
}

// WithoutUsers is for a server whose first user is created by what is tested. Without it, a real Coder has one.
func WithoutUsers() Option { return func(s *Server) { s.bare = true } }

// WithHostPrefixCookie expects the session cookie under another name, as Coder does
// since 2.31 if CODER_HOST_PREFIX_COOKIE is set.
func WithHostPrefixCookie() Option { return func(s *Server) { s.hostPrefixCookie = true } }

// WithPasswordLoginDisabled disables the login with a password for all users, as
// CODER_DISABLE_PASSWORD_AUTH does.
func WithPasswordLoginDisabled() Option { return func(s *Server) { s.noPasswords = true } }
