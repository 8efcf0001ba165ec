package controlplane

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// TestADatabaseOfAnotherControlPlane checks that the younger of two control planes with one database names
// the older one, wherever their specs name the Secret, and stays Ready.
func TestADatabaseOfAnotherControlPlane(t *testing.T) {
	inSpec := func(secret, key string) func(*coderv1alpha1.CoderControlPlane) {
		return func(cp *coderv1alpha1.CoderControlPlane) {
			cp.Spec.ExtraEnv = nil
			cp.Spec.Database = &coderv1alpha1.DatabaseSpec{SecretRef: &coderv1alpha1.DatabaseSecretReference{Name: secret, Key: key}}
		}
	}
	for name, c := range map[string]struct {
		change func(*coderv1alpha1.CoderControlPlane)
		age    time.Duration
		shared bool
	}{
		"the same variable":    {func(*coderv1alpha1.CoderControlPlane) {}, time.Hour, true},
		"the same Secret":      {inSpec("db", ""), time.Hour, true},
		"another key":          {inSpec("db", "other"), time.Hour, false},
		"another Secret":       {inSpec("other", "url"), time.Hour, false},
		"no Secret":            {func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.ExtraEnv = nil }, time.Hour, false},
		"the other is younger": {func(*coderv1alpha1.CoderControlPlane) {}, -time.Hour, false},
		"in another namespace": {func(cp *coderv1alpha1.CoderControlPlane) { cp.Namespace = "elsewhere" }, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			cp := newControlPlane()
			cp.CreationTimestamp = metav1.NewTime(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
			other := newControlPlane(c.change)
			other.Name, other.UID, other.CreationTimestamp = "other", "other-uid", metav1.NewTime(cp.CreationTimestamp.Add(-c.age))
			f := newFixture(t, cp, databaseSecret(), other)
			f.Settle()
			f.PodsReady(1)
			f.Settle()
			f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
			if !c.shared {
				f.MustNotHave(coderv1alpha1.ConditionDatabaseExclusive)
				return
			}
			condition := f.MustHave(coderv1alpha1.ConditionDatabaseExclusive, metav1.ConditionFalse, coderv1alpha1.ReasonDatabaseShared)
			const want = `CoderControlPlane "other" uses the same database, key "url" of Secret "db" (CODER_PG_CONNECTION_URL in spec.extraEnv): ` +
				"both change the same Coder; give each its own database, or delete one of them"
			if condition.Message != want || f.Events.Count("Warning DatabaseShared") != 1 {
				t.Errorf("message is %q, Events %q", condition.Message, f.Events.All())
			}
			f.Remove(other)
			f.Settle()
			f.MustNotHave(coderv1alpha1.ConditionDatabaseExclusive)
		})
	}
}

// Two control planes with one database must not run Coder before and since 2.39 at the same time, also if the other is younger.
func TestAnUpgradeWithASharedDatabaseNeedsAnOutage(t *testing.T) {
	f := readyFixture(t)
	other := newControlPlane()
	other.Name, other.UID, other.CreationTimestamp = "other", "other-uid", metav1.NewTime(f.Clock.Now().Add(time.Hour))
	f.Create(other)
	f.wants("ghcr.io/coder/coder:v2.39.0")
	f.Settle()
	refused := f.MustHave(coderv1alpha1.ConditionVersionAllowed, metav1.ConditionFalse, coderv1alpha1.ReasonDatabaseShared)
	if !strings.Contains(refused.Message, `CoderControlPlane "other"`) || !strings.Contains(refused.Message, `coder.com/allow-version: "v2.39.0"`) {
		t.Errorf("the message is %q", refused.Message)
	}
	f.MustNotHave(coderv1alpha1.ConditionUpgraded)
	f.mustHavePods(image230, 1)

	other.Spec.Replicas = ptr.To[int32](0)
	f.Update(other)
	f.withWorld()
	f.Settle()
	f.MustNotHave(coderv1alpha1.ConditionVersionAllowed)
	f.mustHavePods("ghcr.io/coder/coder:v2.39.0", 1)
}
