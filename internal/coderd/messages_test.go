package coderd

import (
	"strings"
	"testing"
)

func TestMessagesOfParametersAreFilled(t *testing.T) {
	low, high := int32(1), int32(8)
	p := VersionParameter{Min: &low, Max: &high}
	if got := p.Fill("{value} is not from {min} to {max}, {min}!", "9{min}"); got != "9{min} is not from 1 to 8, 1!" {
		t.Errorf("%q", got)
	}
	if got := (VersionParameter{Max: &high}).Fill("from {min} to {max}", "9"); got != "from {min} to 8" {
		t.Errorf("without a minimum: %q", got)
	}
}

func TestErrorsOfPresets(t *testing.T) {
	const detail = `failed to complete job: insert preset: pq: duplicate key value violates unique constraint "`
	for text, says := range map[string]string{
		detail + `idx_unique_preset_name"`:               "have the same name",
		detail + `idx_template_version_presets_default"`: "are the default",
		detail + `other"`:                                detail + `other"`,
		"exit status 1":                                  "exit status 1",
	} {
		if got := importError(text); !strings.Contains(got, says) {
			t.Errorf("%s: %q", text, got)
		}
	}
}
