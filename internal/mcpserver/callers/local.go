package callers

import "k8s.io/apiserver/pkg/authentication/user"

// Local is the caller of a server that asks nobody who they are: it acts as the
// process itself, with its kubeconfig. Only the identity package makes it, and
// only for a server on a loopback address. It is a type of its own, so that no
// token can name it.
type Local struct{}

var _ user.Info = Local{}

// GetName implements user.Info. The name is for logs.
func (Local) GetName() string { return "local" }

// GetUID implements user.Info.
func (Local) GetUID() string { return "" }

// GetGroups implements user.Info.
func (Local) GetGroups() []string { return nil }

// GetExtra implements user.Info.
func (Local) GetExtra() map[string][]string { return nil }
