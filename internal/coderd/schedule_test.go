package coderd

import (
	"strings"
	"testing"
)

func TestCheckSchedule(t *testing.T) {
	for schedule, says := range map[string]string{
		"30 9 * * 1-5":                              "",
		"CRON_TZ=Europe/Berlin 30 9 * * 1-5":        "",
		"CRON_TZ=US/Central */5 9-17/2 * * mon,FRI": "",
		"30\t9 * * *":                               "",
		"":                                          "5 fields",
		"often":                                     "5 fields",
		"30 9 1 * *":                                "day-of-month and month to be *",
		"30 9 * 1 *":                                "day-of-month and month to be *",
		"30 9 ? * *":                                "day-of-month and month to be *",
		"60 9 * * *":                                "above maximum",
		"30 9 * * funday":                           "failed to parse",
		"30 9 * * * *":                              "expected exactly 5 fields",
		"0 30 9 * * 1":                              "expected exactly 5 fields",
		"@daily":                                    "5 fields",
		"CRON_TZ=Mars/Base 30 9 * * *":              "unknown time zone",
		"CRON_TZ=Local 30 9 * * *":                  "time.Local",
		"CRON_TZ=UTC\t30\t9\t*\t*\t*":               "space after the time zone",
		"TZ=UTC 30 9 * * *":                         "expected exactly 5 fields",
	} {
		err := CheckSchedule(schedule)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", schedule, err, says)
		}
	}
}

func FuzzCheckSchedule(f *testing.F) {
	f.Add("CRON_TZ=UTC 30 9 * * 1-5")
	f.Add("CRON_TZ=UTC\t30\t9\t*\t*\t*")
	f.Fuzz(func(_ *testing.T, schedule string) { _ = CheckSchedule(schedule) })
}
