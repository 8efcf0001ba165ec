package terminal

import (
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Ago returns the time since a moment in the format of kubectl: "5m", "3d4h".
func Ago(now, moment time.Time) string {
	if moment.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(moment))
}
