// Package certificates makes, keeps and rotates the serving certificate of the
// aggregated API, and tells kube-apiserver which CA to trust for it.
//
// All replicas do the same: read Secret coder-k8s-apiserver-tls, mend it where it
// needs that, serve what it holds, and set spec.caBundle of the APIService. Who
// writes first wins; the others get a conflict, read again and serve the same.
//
// Invariants:
//   - ca.crt is a bundle, the newest CA first. A new CA does not replace the leaf:
//     that is signed by it when its own time comes, months later, when everybody
//     trusts both. A CA leaves the bundle when it has expired. So no request
//     fails for a rotation.
//   - caBundle is written before a certificate is served that needs it.
//   - The Secret is read by its name and never through a cache, which would need
//     the right to list Secrets.
//   - A Secret of that name without our label or annotation is somebody else's, cert-manager's
//     for example: it is served, and never written.
//   - Nothing but spec.caBundle is applied to the APIService, with a field manager
//     of its own.
package certificates
