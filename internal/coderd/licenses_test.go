package coderd_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

func licenseWith(claims string) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"EdDSA"}`)) + "." + encode([]byte(claims)) + ".s1gnature"
}

func TestParseLicense(t *testing.T) {
	at := func(unix int64) *time.Time { v := time.Unix(unix, 0).UTC(); return &v }
	id := uuid.MustParse("2d4c6f0e-3f5b-4a53-9d0e-0d6f0a6a2b11")
	for _, test := range []struct {
		name, claims string
		want         coderd.LicenseClaims
	}{
		{
			"all of it",
			`{"jti":"2d4c6f0e-3f5b-4a53-9d0e-0d6f0a6a2b11","nbf":1700000000,"license_expires":1800000000.5,"exp":1800864000,
				"trial":true,"feature_set":"premium","features":{"user_limit":25,"odd":"x"},"deployment_ids":["a","b"],"version":3}`,
			coderd.LicenseClaims{
				UUID: id, NotBefore: at(1700000000), ExpiresAt: at(1800000000), GraceEndsAt: at(1800864000), Trial: true,
			},
		},
		{"nothing", `{}`, coderd.LicenseClaims{}},
		{"an old one", `{"all_features":true,"jti":"7"}`, coderd.LicenseClaims{}},
		{
			"claims of other types",
			`{"jti":7,"nbf":"soon","exp":true,"trial":"yes","feature_set":1,"features":[],"deployment_ids":"a"}`,
			coderd.LicenseClaims{},
		},
	} {
		got, err := coderd.ParseLicense(" " + licenseWith(test.claims) + "\n")
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if diff := cmp.Diff(test.want, got, cmpopts.IgnoreUnexported(coderd.LicenseClaims{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestWhatIsNoLicenseIsNotRepeated(t *testing.T) {
	for _, text := range []string{
		"", "s3cret", "s3cret.s3cret", "s3cret.!s3cret.s3cret", "a.b.c.s3cret",
		licenseWith(`"s3cret"`), licenseWith(`null`), licenseWith(`{"s3cret":`), licenseWith(``),
	} {
		_, err := coderd.ParseLicense(text)
		if err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "JSON web token") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestALicenseIsKnownByItsClaims(t *testing.T) {
	parse := func(claims string) coderd.LicenseClaims {
		t.Helper()
		out, err := coderd.ParseLicense(licenseWith(claims))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	held := coderd.License{Claims: parse(`{"exp":9007199254740993,"features":{"a":1,"b":2}}`)}
	for claims, want := range map[string]bool{
		`{ "features": {"b": 2, "a": 1}, "exp": 9007199254740993 }`: true,
		`{"exp":9007199254740992,"features":{"a":1,"b":2}}`:         false,
		`{"exp":9007199254740993,"features":{"a":1}}`:               false,
		`{}`: false,
	} {
		if held.Is(parse(claims)) != want {
			t.Errorf("%s is it: %t", claims, !want)
		}
	}
	if (coderd.License{}).Is(coderd.LicenseClaims{}) {
		t.Error("nothing is a license")
	}
}
