package callers

import "k8s.io/apiserver/pkg/authentication/user"

// Local is the caller of a server without authentication. Its requests use the identity of
// the process's kubeconfig. Only package identity creates it, and only for a server on a
// loopback address. It has its own type, so that no token can claim to be it.
type Local struct{}

var _ user.Info = Local{}

// GetName implements user.Info. The name is used only in logs.
func (Local) GetName() string { return "local" }

// GetUID implements user.Info.
func (Local) GetUID() string { return "" }

// GetGroups implements user.Info.
func (Local) GetGroups() []string { return nil }

// GetExtra implements user.Info.
func (Local) GetExtra() map[string][]string { return nil }
