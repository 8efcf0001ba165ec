package coderdtest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"
)

// licensedURL is the environment variable with the URL of test/licensed, which starts real Coders
// with test licenses. If it is set, a server with licensing is a proxy in front of one of them: the
// contract of licensed features then runs against the real Coder, with its faults and counts.
const licensedURL = "CODER_LICENSED_URL"

// real is the Coder behind a server. Requests that no fault answers go to it. The server's methods
// that show or change the state, and that the contract calls, use its API, as another user would.
type real struct {
	url     string
	client  *codersdk.Client
	cleanup func(func())

	mu sync.Mutex
	// texts are the licenses, provisioner keys and tokens of proxies that were seen, by the id of their
	// object. Coder returns them once.
	texts map[string]string
	// features are the entitlements that a test has set, and granted the licenses for them.
	features map[codersdk.FeatureName]codersdk.Entitlement
	granted  []int32
}

// ask sends a request to test/licensed. These functions are for tests, so they panic on errors.
func ask[T any](path string, body any) (answer T) {
	res, err := http.Post(os.Getenv(licensedURL)+path, "application/json", bytes.NewReader(encoded(body))) //nolint:gosec,noctx // It is local, and only tests use it.
	if err == nil {
		defer func() { _ = res.Body.Close() }()
		if err = json.NewDecoder(res.Body).Decode(&answer); res.StatusCode != http.StatusOK {
			err = fmt.Errorf("HTTP %d", res.StatusCode)
		}
	}
	if err != nil {
		panic(fmt.Sprintf("test/licensed: %s: %v", path, err))
	}
	return answer
}

func sure[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// newReal returns a Coder without licenses, keys and proxies. Another test may have used it, unless it is to have no users.
func newReal(t testing.TB, bare bool) *real {
	coder := ask[struct{ URL, Token string }]("/coder", bare)
	t.Cleanup(func() { ask[struct{}]("/release", coder.URL) })
	r := &real{
		url: coder.URL, client: codersdk.New(sure(url.Parse(coder.URL))), cleanup: t.Cleanup,
		texts: map[string]string{}, features: map[codersdk.FeatureName]codersdk.Entitlement{},
	}
	r.client.SetSessionToken(coder.Token)
	if bare {
		return r
	}
	for _, l := range sure(r.client.Licenses(context.Background())) {
		_ = r.client.DeleteLicense(context.Background(), l.ID)
	}
	r.licensed("", func(ctx context.Context) {
		for _, org := range sure(r.client.Organizations(ctx)) {
			for _, k := range sure(r.client.ListProvisionerKeys(ctx, org.ID)) {
				_ = r.client.DeleteProvisionerKey(ctx, org.ID, k.Name)
			}
			if !org.IsDefault {
				_ = r.client.DeleteOrganization(ctx, org.ID.String())
			}
		}
		for _, p := range sure(r.client.WorkspaceProxies(ctx)).Regions {
			_ = r.client.DeleteWorkspaceProxyByID(ctx, p.ID)
		}
	})
	return r
}

// Real reports whether a real Coder answers, whose clock is not that of the test.
func (s *Server) Real() bool { return s.real != nil }

// Now returns begin, or the current time if a real Coder answers: the term of a license must include the present.
func Now(begin time.Time) time.Time {
	if os.Getenv(licensedURL) != "" {
		return time.Now().UTC().Truncate(time.Second)
	}
	return begin
}

// licensed calls f while a license allows a feature, or everything if the test has not set the feature.
func (r *real) licensed(feature codersdk.FeatureName, f func(context.Context)) {
	ctx := context.Background()
	if r.features[feature].Entitled() {
		f(ctx)
		return
	}
	l := sure(r.client.AddLicense(ctx, codersdk.AddLicenseRequest{License: NewLicense(License{FeatureSet: "premium"})}))
	defer func() { _ = r.client.DeleteLicense(ctx, l.ID) }()
	f(ctx)
}

// forward lets the real Coder answer, and takes note of the secrets in its answer.
func (r *real) forward(w http.ResponseWriter, req *http.Request) {
	body := sure(io.ReadAll(req.Body))
	out := sure(http.NewRequestWithContext(req.Context(), req.Method, r.url+req.URL.RequestURI(), bytes.NewReader(body)))
	out.Header = req.Header.Clone()
	out.Header.Del("Accept-Encoding")
	if token := req.Header.Get(codersdk.SessionTokenHeader); token != "" && r.client.SessionToken() == "" {
		// The first user of a Coder that had none. The operator revokes this token later.
		r.client.SetSessionToken(token)
		r.client.SetSessionToken(sure(r.client.CreateToken(req.Context(), codersdk.Me, codersdk.CreateTokenRequest{Lifetime: 24 * time.Hour, TokenName: "test"})).Key)
	}
	res, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		giveUp()
	}
	defer func() { _ = res.Body.Close() }()
	answer := sure(io.ReadAll(res.Body))
	if res.StatusCode < http.StatusMultipleChoices && req.Method != http.MethodGet {
		r.note(req, body, answer)
	}
	header := w.Header()
	for name, values := range res.Header {
		// The date is that of the test's clock.
		if name != "Date" && name != "X-Coder-Request-Id" && name != "Content-Length" {
			header[name] = values
		}
	}
	w.WriteHeader(res.StatusCode)
	_, _ = w.Write(answer)
}

func (r *real) note(req *http.Request, body, answer []byte) {
	var said struct {
		License string `json:"license"`
		ID      int32  `json:"id"`
		Key     string `json:"key"`
	}
	switch path := req.URL.Path; {
	case strings.HasPrefix(path, "/api/v2/licenses"):
		_ = json.Unmarshal(body, &said)
		_ = json.Unmarshal(answer, &said)
		r.keep(fmtID(said.ID), said.License)
	case strings.HasPrefix(path, "/api/v2/workspaceproxies"):
		r.noteProxy(answer)
	case strings.HasSuffix(path, "/provisionerkeys"):
		_ = json.Unmarshal(answer, &said)
		r.keep(sure(r.client.GetProvisionerKey(req.Context(), said.Key)).ID.String(), said.Key)
	}
}

func fmtID(license int32) string { return strconv.Itoa(int(license)) }

func (r *real) keep(id, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if text != "" {
		r.texts[id] = text
	}
}

func (r *real) text(id string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.texts[id]
}

func (r *real) addUser(username string, roles []string) string {
	ctx, org := context.Background(), r.organizationID(codersdk.DefaultOrganization)
	// A test before may have added the user.
	_, _ = r.client.CreateUserWithOrgs(ctx, codersdk.CreateUserRequestWithOrgs{
		Username: username, Email: username + "@example.com", Password: username + "-Passw0rd!", OrganizationIDs: []uuid.UUID{org},
	})
	_ = sure(r.client.UpdateUserRoles(ctx, username, codersdk.UpdateRoles{Roles: roles}))
	return sure(r.client.CreateToken(ctx, username, codersdk.CreateTokenRequest{Lifetime: 24 * time.Hour, TokenName: "test-" + uuid.NewString()[:8]})).Key
}

func (r *real) addGroup(name string) (id uuid.UUID) {
	r.licensed(codersdk.FeatureTemplateRBAC, func(ctx context.Context) {
		id = sure(r.client.CreateGroup(ctx, r.organizationID(codersdk.DefaultOrganization), codersdk.CreateGroupRequest{Name: name})).ID
	})
	return id
}

func (r *real) organizationID(name string) uuid.UUID {
	org, err := r.client.OrganizationByName(context.Background(), name)
	if err != nil {
		return uuid.Nil
	}
	return org.ID
}

func (r *real) licenses() (held []HeldLicense) {
	all := sure(r.client.Licenses(context.Background()))
	slices.SortFunc(all, func(a, b codersdk.License) int { return cmp.Compare(a.ID, b.ID) })
	for _, l := range all {
		held = append(held, HeldLicense{License: l, Text: r.text(fmtID(l.ID))})
	}
	return held
}

func (r *real) provisionerKeys(organization string) (keys []ProvisionerKey) {
	r.licensed(codersdk.FeatureExternalProvisionerDaemons, func(ctx context.Context) {
		for _, k := range sure(r.client.ListProvisionerKeys(ctx, r.organizationID(organization))) {
			keys = append(keys, ProvisionerKey{ProvisionerKey: k, Text: r.text(k.ID.String())})
		}
	})
	slices.SortFunc(keys, func(a, b ProvisionerKey) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return keys
}

func (r *real) addProvisionerKey(organization, name string, tags map[string]string) (text string) {
	r.licensed(codersdk.FeatureExternalProvisionerDaemons, func(ctx context.Context) {
		made, err := r.client.CreateProvisionerKey(ctx, r.organizationID(organization), codersdk.CreateProvisionerKeyRequest{Name: name, Tags: tags})
		if err == nil {
			text = made.Key
			r.keep(sure(r.client.GetProvisionerKey(ctx, text)).ID.String(), text)
		}
	})
	return text
}

func (r *real) removeProvisionerKey(organization, name string) (removed bool) {
	r.licensed(codersdk.FeatureExternalProvisionerDaemons, func(ctx context.Context) {
		removed = r.client.DeleteProvisionerKey(ctx, r.organizationID(organization), name) == nil
	})
	return removed
}

// addProvisionerDaemon connects a daemon that accepts no jobs, until the test ends. The built-in one
// is there anyway.
func (r *real) addProvisionerDaemon(organization, key, name string) (id uuid.UUID) {
	keys := r.provisionerKeys(organization)
	i := slices.IndexFunc(keys, func(k ProvisionerKey) bool { return strings.EqualFold(k.Name, key) })
	if i < 0 {
		return uuid.Nil
	}
	r.licensed(codersdk.FeatureExternalProvisionerDaemons, func(ctx context.Context) {
		org := keys[i].OrganizationID
		client := sure(r.client.ServeProvisionerDaemon(ctx, codersdk.ServeProvisionerDaemonRequest{
			Name: name, Organization: org, ProvisionerKey: keys[i].Text, Provisioners: []codersdk.ProvisionerType{codersdk.ProvisionerTypeTerraform},
		}))
		r.cleanup(func() { _ = client.DRPCConn().Close() })
		for _, d := range sure(r.client.OrganizationProvisionerDaemons(ctx, org, nil)) {
			if d.Name == name {
				id = d.ID
			}
		}
	})
	return id
}
