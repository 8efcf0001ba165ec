// Package certificates creates, stores and rotates the serving certificate of the aggregated API
// and of /metrics, and sets the CA that kube-apiserver trusts for the aggregated API.
//
// All replicas do the same: they read Secret coder-k8s-apiserver-tls, repair it if necessary, serve
// its certificate, and set spec.caBundle of the APIService. The first writer wins. The others get a
// conflict, read the Secret again, and serve the same certificate.
//
// Invariants:
//   - ca.crt is a bundle with the newest CA first. A new CA does not replace the leaf
//     certificate. The next regular leaf is signed by it, months later, when all clients
//     trust both CAs. A CA is removed from the bundle after it has expired. So a rotation
//     causes no failed requests.
//   - caBundle is written before a certificate is served that needs it.
//   - The Secret is read by its name and never through a cache, which would need
//     permission to list Secrets.
//   - A Secret of that name without our label or annotation is managed by another
//     component, for example cert-manager. It is served, and never written.
//   - Only spec.caBundle of the APIService is applied, with a dedicated field manager.
package certificates
