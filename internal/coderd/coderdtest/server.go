package coderdtest

import (
	"net/http"
	"net/http/httptest"
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
	ownerTokenLifetime time.Duration
	tokenLifetime      time.Duration
	deploymentID       uuid.UUID
	stopped            chan struct{}

	// mu protects everything below. It is held while a request is handled.
	mu            sync.Mutex
	lastTime      time.Time
	counter       int
	index         index
	users         []*user
	keys          []*key
	organizations []*codersdk.Organization
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
	provisionerKeys []*provisionerKey
	daemons         []*codersdk.ProvisionerDaemon
	proxies         []*proxy

	// trafficMu protects the faults and counts, which must not wait for mu.
	trafficMu sync.Mutex
	latency   time.Duration
	faults    []*activeFault
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
	open("GET /api/v2/buildinfo", s.getBuildInfo)
	s.routeUsers(open, closed)
	s.routeTokens(closed)
	s.routeOrganizations(closed)
	s.routeTemplates(closed)
	s.routeVersions(closed)
	s.routeFiles(closed)
	s.routeWorkspaces(closed)
	s.routeWorkspaceSettings(closed)
	s.routeBuilds(closed)
	s.routeAgents(closed)
	s.routeDaemons(closed)
	s.routeLicensing(open, closed)
	open("/", func(*request) { routeNotFound() })
	return mux
}

type route func(pattern string, handle handlerFunc)

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

// WithHostPrefixCookie expects the session cookie under another name, as Coder does
// since 2.31 if CODER_HOST_PREFIX_COOKIE is set.
func WithHostPrefixCookie() Option { return func(s *Server) { s.hostPrefixCookie = true } }

// WithPasswordLoginDisabled disables the login with a password for all users, as
// CODER_DISABLE_PASSWORD_AUTH does.
func WithPasswordLoginDisabled() Option { return func(s *Server) { s.noPasswords = true } }
