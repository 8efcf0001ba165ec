package coderd_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// TestRestrictedAddresses checks to which addresses the operator does not connect for the author of an object. The
// addresses that it connects to are those of Services and of other networks.
func TestRestrictedAddresses(t *testing.T) {
	reached := false
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer server.Close()
	port := server.URL[strings.LastIndex(server.URL, ":"):]
	for host, says := range map[string]string{
		"127.0.0.1":                "127.0.0.1, because it is a loopback address",
		"127.8.8.8":                "a loopback address",
		"localhost":                "a loopback address",
		"[::1]":                    "a loopback address",
		"[::ffff:127.0.0.1]":       "a loopback address",
		"0.0.0.0":                  "an unspecified address",
		"[::]":                     "an unspecified address",
		"169.254.169.254":          "a link-local address",
		"[fe80::1]":                "a link-local address",
		"[::ffff:169.254.169.254]": "a link-local address",
		"224.0.0.1":                "a multicast address",
		"[ff02::1]":                "a multicast address",
		"[fd00:ec2::254]":          "the metadata server of a cloud",
		"[fd00:ec2::23]":           "the metadata server of a cloud",
		"[64:ff9b::a9fe:a9fe]":     "a link-local address",
		"[64:ff9b::6464:64c8]":     "the metadata server of a cloud",
		"[fd20:ce::254]":           "the metadata server of a cloud",
		"100.100.100.200":          "the metadata server of a cloud",
		"168.63.129.16":            "the metadata server of a cloud",
		"192.0.0.192":              "the metadata server of a cloud",
	} {
		client, err := coderd.New(coderd.Config{URL: "http://" + host + port, Restricted: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = client.BuildInfo(t.Context()); !coderd.IsRestricted(err) || !strings.Contains(err.Error(), "the operator does not connect to ") || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want that it is %s", host, err, says)
		}
	}
	if reached {
		t.Error("the server was reached")
	}
}
