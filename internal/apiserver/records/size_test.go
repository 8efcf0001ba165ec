package records

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
)

// TestWhatIsTooLarge checks that a real kube-apiserver and etcd accept a record of the largest size, and
// that the error for each larger one, and for a name that is not valid, belongs to the record.
func TestWhatIsTooLarge(t *testing.T) {
	newRaw(t)
	c, ctx := client(t), t.Context()
	write := func(name string, size int) error {
		record := &Record{Namespace: "test-ns", Name: name}
		record.Object = strings.Repeat("x", size-len(`{"object":""}`))
		err := c.Create(ctx, record)
		if err == nil {
			record.Claim = "replica/" + strings.Repeat("C", 26)
			err = c.Update(ctx, record)
		}
		if err == nil {
			return c.Delete(ctx, record.Namespace, record.Name, record.Revision)
		}
		return failed(ctx, "writing", err)
	}
	if err := write("largest", metadata.MaxRecord); err != nil {
		t.Errorf("%.300s", err)
	}
	for _, size := range []int{1600 << 10, 2100 << 10, 4 << 20} {
		if err := write("larger", size); !IsRefused(err) || !apierrors.IsRequestEntityTooLargeError(err) {
			t.Errorf("%d KiB: %.300s", size>>10, err)
		}
	}
	for _, name := range []string{"a b", "Ada", strings.Repeat("a", 300), "a..b"} {
		if err := write(name, 100); !IsRefused(err) || !apierrors.IsInvalid(err) {
			t.Errorf("name %.20s: %.300v", name, err)
		}
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := failed(gone, "writing", apierrors.NewBadRequest("no")); IsRefused(err) {
		t.Error("a request that ended is refused")
	}
}
