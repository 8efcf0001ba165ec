package terminal

import (
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Ago is how long ago a moment was, as kubectl writes ages: "5m", "3d4h".
func Ago(now, moment time.Time) string {
	if moment.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(moment))
}
