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

// auditPolicy records every request of the operator.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts:coder-system"]
- level: None
`

// configureAudit configures kube-apiserver to record the operator's requests:
// forbidden requests and writes, which need not be in the operator's logs.
func configureAudit(server *envtest.APIServer, dir string) error {
	policy := filepath.Join(dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return err
	}
	// The log must not be rotated, because tests remember offsets in it.
	server.Configure().Set("audit-policy-file", policy).Set("audit-log-path", auditFile(dir)).Set("audit-log-maxsize", "0")
	return nil
}

func auditFile(dir string) string { return filepath.Join(dir, "audit.log") }

// request is one request to kube-apiserver in its audit log.
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
	// ImpersonationConstraint is the permission that allowed the impersonation.
	AuthenticationMetadata struct{ ImpersonationConstraint string }
	ObjectRef              struct{ APIGroup, Resource, Namespace, Name, Subresource string }
	ResponseStatus         struct{ Code int }
	Annotations            map[string]string
}

func (r request) String() string {
	return fmt.Sprintf("%s %s: %d", r.Verb, r.RequestURI, r.ResponseStatus.Code)
}

// by reports whether a process made the request itself, without impersonation.
func (r request) by(p *process) bool {
	return r.ImpersonatedUser == nil && slices.Contains(r.User.Extra["authentication.kubernetes.io/credential-id"], p.credential)
}

// lacksRight reports whether the request was refused because of who made it. In a
// terminating namespace creations are refused for every caller.
func (r request) lacksRight() bool {
	return r.ResponseStatus.Code == 403 && r.Annotations["authorization.k8s.io/decision"] != "allow"
}

// changes reports whether the request is a change, except of Events, reviews and
// Leases.
func (r request) changes() bool {
	switch r.ObjectRef.Resource {
	case "events", "leases", "tokenreviews", "subjectaccessreviews", "selfsubjectreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews":
		return false
	}
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Verb)
}

// auditSize returns the current size of the audit log. The next entry begins there or
// later: kube-apiserver may be writing one.
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

// requests reads the audit log from an offset. It leaves out an entry that begins before
// the offset.
func requests(t *testing.T, from int64) []request {
	t.Helper()
	file, err := os.Open(auditFile(environment.dir))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewReader(file)
	if from > 0 {
		if _, err := file.Seek(from-1, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		if _, err := lines.ReadBytes('\n'); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			t.Fatal(err)
		}
	}
	var all []request
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all // Without the incomplete last line.
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

// changesBy returns the changes of a process from an offset in the audit log.
func changesBy(t *testing.T, from int64, p *process) []request {
	t.Helper()
	return slices.DeleteFunc(requests(t, from), func(r request) bool { return !r.by(p) || !r.changes() })
}

// notForbidden fails the test if the audit log or the program's log shows that the
// program lacks a permission.
func notForbidden(t *testing.T, p *process) {
	t.Helper()
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
