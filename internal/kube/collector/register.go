package collector

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Register registers a collector. If the registry already has an equal one, collector is replaced
// by that one.
func Register[C prometheus.Collector](registerer prometheus.Registerer, collector *C) error {
	err := registerer.Register(*collector)
	var known prometheus.AlreadyRegisteredError
	if errors.As(err, &known) {
		if existing, same := known.ExistingCollector.(C); same {
			*collector = existing
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("registering a metric: %w", err)
	}
	return nil
}
