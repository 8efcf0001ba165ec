package callers

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestWhoeverCallsIsToldAtOnceThatAnAPIIsAway(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "x"}}
	for name, do := range map[string]func(ctx context.Context, kube *Kube) error{
		"a get": func(ctx context.Context, kube *Kube) error {
			return kube.Get(ctx, client.ObjectKeyFromObject(pod), pod.DeepCopy())
		},
		"a list": func(ctx context.Context, kube *Kube) error { return kube.List(ctx, &corev1.PodList{}) },
		"a watch": func(ctx context.Context, kube *Kube) error {
			_, err := kube.Watch(ctx, &corev1.PodList{})
			return err
		},
		"a write": func(ctx context.Context, kube *Kube) error { return kube.Create(ctx, pod.DeepCopy()) },
		"a raw get": func(ctx context.Context, kube *Kube) error {
			_, err := kube.Raw.Get(ctx, "/version", nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := newKubeAPI(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusServiceUnavailable)
				fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","code":503,"message":"away","details":{"retryAfterSeconds":7}}`)
			})
			err := do(as(t.Context(), "alice"), api.client(t))
			if delay, ok := apierrors.SuggestsClientDelay(err); !apierrors.IsServiceUnavailable(err) || !ok || delay != 7 {
				t.Errorf("it ended with %v, to be tried again after %d s", err, delay)
			}
			if n := len(api.requests()); n != 1 {
				t.Errorf("the API was asked %d times", n)
			}
		})
	}
}
