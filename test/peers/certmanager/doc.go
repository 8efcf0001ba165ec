// Command certmanager is cert-manager's own controllers for Issuers, Certificates
// and the injection of CAs, in one process, for trying config/cert-manager by hand:
// hack/peers/certmanager.sh. Its official programs are not in the Go module proxy,
// the packages that they consist of are. What is left out is what talks to others
// (ACME, Vault, Venafi) and the webhook, which only refuses what is wrong.
package main
