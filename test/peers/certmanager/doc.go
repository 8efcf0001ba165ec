// Command certmanager is cert-manager's own controllers for Issuers, Certificates
// and the injection of CAs, in one process, for manual tests of
// the installation cert-manager: test/peers/certmanager.sh. Its official programs are not in
// the Go module proxy, but their packages are. Issuers that connect to external
// services (ACME, Vault, Venafi) and the validating webhook are omitted.
package main
