package coderdtest

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"k8s.io/utils/clock"

	"github.com/coder/coder/v2/codersdk"
)

// Server is a Coder for tests. All methods are safe for concurrent use.
type Server struct {
	// URL is its address.
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

	// mu protects everything below. A request holds it while it is handled.
	mu            sync.Mutex
	lastTime      time.Time
	counter       int
	index         index
	users         []*user
	keys          []*key
	organizations []codersdk.Organization
	templates     []*template
	versions      []*version
	files         []*file
	results       map[string]BuildResult
	queued        []*job
	lastLog       int64
	// agentLogs and agentWorkspaces are those of agents that wrote, by their ids.
	agentLogs       map[uuid.UUID]*agentLog
	agentWorkspaces map[uuid.UUID]*workspace
	// logged is closed and replaced when a line is written or a job ends.
	logged chan struct{}

	licenses        []*license
	lastLicense     int32
	features        map[codersdk.FeatureName]codersdk.Entitlement
	provisionerKeys []*provisionerKey
	daemons         []*daemon
	proxies         []*proxy

	// trafficMu protects the faults and counts, which do not wait for a request.
	trafficMu sync.Mutex
	latency   time.Duration
	faults    []*activeFault
	requests  map[string]int
	received  []Received
}

// New starts a server without any user that ends with the test.
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

// now is the server's time, strictly rising, in the precision that Coder's
// database keeps.
func (s *Server) now() time.Time {
	now := s.clock.Now().UTC().Truncate(time.Microsecond)
	if !now.After(s.lastTime) {
		now = s.lastTime.Add(time.Microsecond)
	}
	s.lastTime = now
	return now
}

// handler routes the requests. Each class of requests has the name of its
// pattern.
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
	s.routeJobs(closed)
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

func (s *Server) addOrganization(name string, isDefault bool) codersdk.Organization {
	now := s.now()
	org := codersdk.Organization{
		MinimalOrganization: codersdk.MinimalOrganization{ID: uuid.New(), Name: name, DisplayName: name},
		CreatedAt:           now,
		UpdatedAt:           now,
		IsDefault:           isDefault,
	}
	s.organizations = append(s.organizations, org)
	return org
}
