package registry

import (
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSeconds checks that an object with any time that Coder can send can be stored and read again. With a time zone, a time may be
// in a year that JSON has no form for.
func TestSeconds(t *testing.T) {
	for _, sent := range []string{
		"2026-05-04T12:00:00.5Z", "0001-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "0000-01-01T00:00:00+23:59",
		"9999-12-31T23:59:59Z", "9999-12-31T23:59:59-23:59",
	} {
		var at time.Time
		if err := json.Unmarshal([]byte(`"`+sent+`"`), &at); err != nil {
			t.Fatal(err)
		}
		stored, err := json.Marshal(Seconds(at))
		if err != nil {
			t.Fatal(err)
		}
		var read metav1.Time
		if err := json.Unmarshal(stored, &read); err != nil {
			t.Errorf("the time %s is stored as %s, which cannot be read: %v", sent, stored, err)
		}
	}
}
