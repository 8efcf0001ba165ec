package objectlog

import (
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/feature"
)

// progressSupport claims for all storages of the process that they tell the
// progress of watches. The library finds out otherwise by asking etcd for its
// version. It is embedded because one of its methods cannot be written outside.
type progressSupport struct {
	feature.FeatureSupportChecker
}

func (p progressSupport) Supports(wanted storage.Feature) bool {
	return wanted == storage.RequestWatchProgress || p.FeatureSupportChecker.Supports(wanted)
}

// EnableWatchProgress tells the library that the storage of this process supports
// RequestWatchProgress; without it watches with initial events are refused and
// consistent lists bypass the cacher. The library keeps that in a variable of the
// process, so it is called once, before any server is built.
func EnableWatchProgress() {
	feature.DefaultFeatureSupportChecker = progressSupport{feature.NewDefaultFeatureSupportChecker()}
}
