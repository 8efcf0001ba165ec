package integration

import (
	"context"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
)

func byName(list *unstructured.UnstructuredList) map[string]*unstructured.Unstructured {
	all := map[string]*unstructured.Unstructured{}
	for i := range list.Items {
		all[list.Items[i].GetName()] = &list.Items[i]
	}
	return all
}

func ttlOf(object *unstructured.Unstructured) *time.Duration {
	millis, ok, _ := unstructured.NestedInt64(object.Object, "spec", "ttlMillis")
	if !ok {
		return nil
	}
	ttl := time.Duration(millis) * time.Millisecond
	return &ttl
}

func describe(build string, ttl *time.Duration) string {
	if ttl == nil {
		return build
	}
	return build + " stops after " + ttl.String()
}

func revisionsOf(objects map[string]*unstructured.Unstructured) map[string]string {
	all := map[string]string{}
	for name, object := range maps.All(objects) {
		all[name] = object.GetResourceVersion()
	}
	return all
}

func revisionsIn(store cache.Store) map[string]string {
	all := map[string]string{}
	for _, item := range store.List() {
		object := item.(*unstructured.Unstructured)
		all[object.GetName()] = object.GetResourceVersion()
	}
	return all
}

// every calls a function periodically until the context is done.
func every(ctx context.Context, period time.Duration, do func()) {
	for ctx.Err() == nil {
		pause(ctx, period)
		do()
	}
}
