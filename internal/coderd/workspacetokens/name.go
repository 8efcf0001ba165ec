package workspacetokens

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/google/uuid"
)

const (
	// NamePrefix is the prefix of the tokens' names in Coder.
	NamePrefix = "coder-k8s-workspace-"
	// maxBy is the maximum length of the part of a name that identifies the requesting user.
	maxBy = 80
	// byHash is the number of hash digits at the end of a user name that had to be changed.
	byHash = 8
	// idLength is the length of a UUID.
	idLength = 36
)

// newName returns a unique name of a token.
func newName(workspace uuid.UUID, by string) string {
	return NamePrefix + workspace.String() + "-" + strings.ToLower(rand.Text()[:12]) + "." + nameOf(by)
}

// nameOf returns a Kubernetes user name in the form for the name of a token. Unusual characters
// become underscores, and long names are truncated. A hash then distinguishes the user from others.
func nameOf(user string) string {
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".-@:/", r) {
			return r
		}
		return '_'
	}, user)
	if !strings.Contains(plain, "_") && len(user) <= maxBy {
		return user
	}
	hash := sha256.Sum256([]byte(user))
	return plain[:min(len(plain), maxBy-byHash-1)] + "_" + hex.EncodeToString(hash[:])[:byHash]
}

// parseName returns the workspace of a token and the user who requested it. It reports whether the
// token was created by this package.
func parseName(name string) (workspace uuid.UUID, by string, ok bool) {
	rest, ok := strings.CutPrefix(name, NamePrefix)
	if !ok || len(rest) < idLength {
		return uuid.Nil, "", false
	}
	workspace, err := uuid.Parse(rest[:idLength])
	if err != nil {
		return uuid.Nil, "", false
	}
	_, by, ok = strings.Cut(rest[idLength:], ".")
	return workspace, by, ok
}
