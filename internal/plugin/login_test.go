package plugin

import (
	"errors"
	"strings"
	"testing"
)

// TestLogin checks that the password is printed only with the flag.
func TestLogin(t *testing.T) {
	d := newHarness()
	forwarding(t, d)
	got := d.run(t, sampleAPI(t), "-n", "coder", "login")
	got.want(t, 130, "http://localhost:43210/login\n", "Log in as admin@example.com. The password is on the clipboard.")
	if strings.Contains(got.out+got.err, "sesame") || len(d.copied) != 1 || d.copied[0] != "open sesame" {
		t.Errorf("the clipboard got %q; the outputs are %q and %q", d.copied, got.out, got.err)
	}
	d = newHarness()
	d.copyError = errors.New("no clipboard")
	forwarding(t, d)
	got = d.run(t, sampleAPI(t), "-n", "coder", "login")
	got.want(t, 130, "http://localhost:43210/login\n", "could not be copied: no clipboard. This prints it:\n  kubectl coder login -n coder coder --show-password\n")
	if strings.Contains(got.out+got.err, "sesame") {
		t.Errorf("without a clipboard: %+v", got)
	}
	golden(t, "login.golden", newHarness().run(t, sampleAPI(t), "-n", "coder", "login", "--show-password").out)
	newHarness().run(t, sampleAPI(t), "-n", "coder", "login", "--show-password", "-o", "json").want(t, 0, `"password": "open sesame"`, "")
	newHarness().run(t, sampleAPI(t), "-n", "coder", "login", "-o", "json").want(t, 2, "", "add --show-password")
	api := sampleAPI(t)
	for inside, want := range map[string]string{"http://coder.coder.svc:80": "http://[2001:db8::1]\n", "https://coder.coder.svc:8443": "https://[2001:db8::1]:8443\n"} {
		api.setStatus(planes, "coder", fields{"url": inside})
		api.change("/api/v1/services", "coder/coder", func(o fields) {
			o["status"] = fields{"loadBalancer": fields{"ingress": []any{fields{"ip": "2001:db8::1"}}}}
		})
		newHarness().run(t, api, "-n", "coder", "login", "--show-password").want(t, 0, want, "")
	}
	delete(api.objects["/api/v1/secrets"], "coder/coder-initial-admin")
	newHarness().run(t, api, "-n", "coder", "login").want(t, 1, "", "there is no Secret coder/coder-initial-admin")
}
