package coderd

import (
	"errors"
	"strings"
	_ "time/tzdata" // The image of the operator has no time zones.

	"github.com/coder/coder/v2/coderd/schedule/cron"
)

// CheckSchedule returns why Coder does not accept the autostart schedule of a workspace, or nil.
func CheckSchedule(schedule string) error {
	if strings.HasPrefix(schedule, "CRON_TZ=") && !strings.Contains(schedule, " ") {
		// Coder's parser panics for it.
		return errors.New("expected a space after the time zone")
	}
	_, err := cron.Weekly(schedule)
	return err
}
