package callers

import "testing"

func TestEachUserHasAShare(t *testing.T) {
	q := NewQuota(2, 3)
	first, ok := q.Begin("alice")
	if !ok {
		t.Fatal("the first one is refused")
	}
	if _, ok := q.Begin("alice"); !ok {
		t.Fatal("the second one is refused")
	}
	if _, ok := q.Begin("alice"); ok {
		t.Error("a third one began")
	}
	if _, ok := q.Begin("bob"); !ok {
		t.Error("another user is refused")
	}
	if _, ok := q.Begin("carol"); ok {
		t.Error("a fourth one of all users began")
	}
	first()
	first()
	if got := q.Total(); got != 2 {
		t.Errorf("after one end, called twice, %d are under way", got)
	}
	if _, ok := q.Begin("alice"); !ok {
		t.Error("its place is not free again")
	}
}

// TestNobodyIsRemembered checks that a user without operations uses no memory.
func TestNobodyIsRemembered(t *testing.T) {
	q := NewQuota(1, 0)
	end, _ := q.Begin("alice")
	end()
	if len(q.byUser) != 0 {
		t.Errorf("%v is remembered", q.byUser)
	}
}

func TestWithoutABound(t *testing.T) {
	q := NewQuota(0, 0)
	for range 100 {
		if _, ok := q.Begin("alice"); !ok {
			t.Fatal("one is refused")
		}
	}
}
