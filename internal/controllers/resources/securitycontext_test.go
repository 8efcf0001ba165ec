package resources

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// TestTheSecurityContextIsMerged checks that the spec overrides the defaults, unless Kubernetes
// would reject the combination.
func TestTheSecurityContextIsMerged(t *testing.T) {
	with := func(change func(*corev1.SecurityContext)) *corev1.SecurityContext {
		sc := &corev1.SecurityContext{
			RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](1000), RunAsGroup: ptr.To[int64](1000),
			AllowPrivilegeEscalation: ptr.To(false),
			SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}
		change(sc)
		return sc
	}
	// helm is the security context of Coder's own chart.
	helm := with(func(sc *corev1.SecurityContext) { sc.Capabilities = nil })
	for name, c := range map[string]struct {
		given, want *corev1.SecurityContext
		platform    bool
		// live is the security context in a Deployment of an earlier version of the operator.
		live *corev1.SecurityContext
	}{
		"nothing":       {nil, with(func(*corev1.SecurityContext) {}), false, nil},
		"empty":         {&corev1.SecurityContext{}, with(func(*corev1.SecurityContext) {}), false, nil},
		"another field": {&corev1.SecurityContext{ReadOnlyRootFilesystem: ptr.To(true)}, with(func(sc *corev1.SecurityContext) { sc.ReadOnlyRootFilesystem = ptr.To(true) }), false, nil},
		"another user":  {&corev1.SecurityContext{RunAsUser: ptr.To[int64](7)}, with(func(sc *corev1.SecurityContext) { sc.RunAsUser = ptr.To[int64](7) }), false, nil},
		"a capability": {
			&corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_BIND_SERVICE"}}},
			with(func(sc *corev1.SecurityContext) {
				sc.Capabilities.Add = []corev1.Capability{"NET_BIND_SERVICE"}
			}), false, nil,
		},
		"other capabilities dropped": {
			&corev1.SecurityContext{Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"NET_RAW"}}},
			with(func(sc *corev1.SecurityContext) { sc.Capabilities.Drop = []corev1.Capability{"NET_RAW"} }), false, nil,
		},
		"root": {&corev1.SecurityContext{RunAsUser: ptr.To[int64](0)}, with(func(sc *corev1.SecurityContext) {
			sc.RunAsNonRoot, sc.RunAsUser = nil, ptr.To[int64](0)
		}), false, nil},
		"privileged": {&corev1.SecurityContext{Privileged: ptr.To(true)}, with(func(sc *corev1.SecurityContext) {
			sc.Privileged, sc.AllowPrivilegeEscalation = ptr.To(true), nil
		}), false, nil},
		"the platform's user": {nil, with(func(sc *corev1.SecurityContext) { sc.RunAsUser, sc.RunAsGroup = nil, nil }), true, nil},
		"the platform's user, and another group": {&corev1.SecurityContext{RunAsGroup: ptr.To[int64](0)}, with(func(sc *corev1.SecurityContext) {
			sc.RunAsUser, sc.RunAsGroup = nil, ptr.To[int64](0)
		}), true, nil},
		"runs with the chart's":      {helm, helm, false, helm},
		"runs, and less in the spec": {nil, helm, false, helm},
		"runs without any":           {nil, helm, false, &corev1.SecurityContext{}},
		"runs, and more in the spec": {
			&corev1.SecurityContext{Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			with(func(*corev1.SecurityContext) {}), false, helm,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := proxy()
			w.Spec.SecurityContext, w.Spec.PlatformAssignedUser = c.given, c.platform
			if c.live != nil {
				w.Live = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
					Containers: []corev1.Container{{Name: w.Container, Image: w.Image, SecurityContext: c.live}},
				}}
			}
			before := c.given.DeepCopy()
			if got := PlainPodTemplate(w).Spec.Containers[0].SecurityContext; !reflect.DeepEqual(got, c.want) {
				t.Errorf("it is %+v, not %+v", got, c.want)
			}
			if !reflect.DeepEqual(before, c.given) {
				t.Errorf("the spec became %+v", c.given)
			}
		})
	}

	// With another image the pods are replaced anyway, also those of Helm.
	for _, adopted := range []bool{false, true} {
		w := proxy()
		live := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "coder", Image: "before"}}}}
		w.Live, w.Container = live, "coder"
		if adopted {
			w.Live, w.Adopted = nil, &Adopted{Container: "coder", Template: live}
		}
		if got, want := PlainPodTemplate(w).Spec.Containers[0].SecurityContext, with(func(*corev1.SecurityContext) {}); !reflect.DeepEqual(got, want) {
			t.Errorf("with another image it is %+v, not %+v", got, want)
		}
		live.Spec.Containers[0].Image = w.Image
		want := helm
		if adopted {
			want = nil
		}
		if got := PlainPodTemplate(w).Spec.Containers[0].SecurityContext; !reflect.DeepEqual(got, want) {
			t.Errorf("with the same image it is %+v, not %+v", got, want)
		}
	}
}
