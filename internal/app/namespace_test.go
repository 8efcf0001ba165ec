package app

import "testing"

func TestPodIPv6(t *testing.T) {
	for ip, want := range map[string]bool{"": false, "10.0.0.7": false, "2001:db8::7": true, "::ffff:10.0.0.7": false, "nonsense": false} {
		if got := podIPv6(func(string) string { return ip }); got != want {
			t.Errorf("%q: %t", ip, got)
		}
	}
}
