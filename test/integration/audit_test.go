package integration

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// auditPolicy has every request of the operator written down.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts:coder-system"]
- level: None
`

// configureAudit has kube-apiserver write down what the operator asks of it: what
// it may not, and what it writes. The logs of the operator need not tell that.
func configureAudit(server *envtest.APIServer, dir string) error {
	policy := filepath.Join(dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return err
	}
	// A log that begins anew has no places that somebody has noted.
	server.Configure().Set("audit-policy-file", policy).Set("audit-log-path", auditFile(dir)).Set("audit-log-maxsize", "0")
	return nil
}

func auditFile(dir string) string { return filepath.Join(dir, "audit.log") }

// request is one request to kube-apiserver, as it wrote it down.
type request struct {
	AuditID, Verb, RequestURI string
	User                      struct {
		Username string
		Extra    map[string][]string
	}
	ImpersonatedUser *struct {
		Username string
		Groups   []string
	}
	// ImpersonationConstraint is the right to be that user by which it was allowed.
	AuthenticationMetadata struct{ ImpersonationConstraint string }
	ObjectRef              struct{ APIGroup, Resource, Namespace, Name, Subresource string }
	ResponseStatus         struct{ Code int }
	Annotations            map[string]string
}

func (r request) String() string {
	return fmt.Sprintf("%s %s: %d", r.Verb, r.RequestURI, r.ResponseStatus.Code)
}

// by reports whether a process made the request itself, not for somebody else.
func (r request) by(p *process) bool {
	return r.ImpersonatedUser == nil && slices.Contains(r.User.Extra["authentication.kubernetes.io/credential-id"], p.credential)
}

// lacksRight reports whether the request was refused because of who made it. In a
// namespace that is being deleted nothing can be made by anybody.
func (r request) lacksRight() bool {
	return r.ResponseStatus.Code == 403 && r.Annotations["authorization.k8s.io/decision"] != "allow"
}

// changes reports whether the request was to change something. Events, reviews and
// leases are of the process, not of its work.
func (r request) changes() bool {
	switch r.ObjectRef.Resource {
	case "events", "leases", "tokenreviews", "subjectaccessreviews", "selfsubjectreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews":
		return false
	}
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Verb)
}

// auditSize is the place in the audit log where what comes now begins.
func auditSize(t *testing.T) int64 {
	t.Helper()
	info, err := os.Stat(auditFile(environment.dir))
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// requests reads the audit log from a place on.
func requests(t *testing.T, from int64) []request {
	t.Helper()
	file, err := os.Open(auditFile(environment.dir))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Seek(from, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	var all []request
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all // Without the line that is being written.
		}
		if err != nil {
			t.Fatal(err)
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("reading the audit log: %v", err)
		}
		all = append(all, r)
	}
}

// changesBy returns what a process changed from a place in the audit log on.
func changesBy(t *testing.T, from int64, p *process) []request {
	t.Helper()
	return slices.DeleteFunc(requests(t, from), func(r request) bool { return !r.by(p) || !r.changes() })
}

// notForbidden fails the test where kube-apiserver or the program's log tell that
// the program lacks a right.
func notForbidden(t *testing.T, p *process) {
	t.Helper()
	if p.lacksRights {
		return
	}
	for _, r := range requests(t, p.auditFrom) {
		if r.by(p) && r.lacksRight() {
			t.Errorf("the operator may not do what it tries: %s", r)
		}
	}
	for line := range strings.SplitSeq(p.logs.String(), "\n") {
		if strings.Contains(line, "because it is being terminated") {
			continue
		}
		if !p.serverRestarts && strings.Contains(strings.ToLower(line), "forbidden") {
			t.Errorf("the log tells of a right that is missing: %s", line)
		}
	}
}
