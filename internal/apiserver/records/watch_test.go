package records

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"
)

// ending is a Cluster whose watches end at once.
type ending struct {
	Cluster
	opened int
	// refused is the error of all watches except the first.
	refused error
}

func (e *ending) Watch(ctx context.Context, _ Query) (Stream, error) {
	e.opened++
	if e.opened > 10_000 {
		// End a loop without a pause, in which the time of the test would stand still.
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if e.opened > 1 && e.refused != nil {
		return nil, e.refused
	}
	return endedStream{}, nil
}

// Create is called for a heartbeat.
func (*ending) Create(context.Context, *Record) error { return errors.New("no") }

type endedStream struct{}

func (endedStream) Next() (Event, error) { return Event{}, io.EOF }
func (endedStream) Close()               {}

// TestAWatchThatDeliversNothing checks the rates of requests and of log lines if a watch ends as soon
// as it is opened, and if it cannot be opened again.
func TestAWatchThatDeliversNothing(t *testing.T) {
	for name, c := range map[string]struct {
		refused error
		lines   int
	}{
		"ends":      {nil, 0},
		"forbidden": {apierrors.NewForbidden(schema.GroupResource{Resource: "records"}, "", errors.New("no")), 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lines := 0
				logger := funcr.New(func(_, line string) { lines++ }, funcr.Options{})
				cluster := &ending{refused: c.refused}
				w, err := newStore(t, cluster, replicaA).Watch(klog.NewContext(t.Context(), logger), podPrefix,
					storage.ListOptions{ResourceVersion: "7", Recursive: true, Predicate: storage.Everything})
				if err != nil {
					t.Fatal(err)
				}
				const minutes = 3
				<-time.After(minutes*time.Minute - time.Second)
				w.Stop()
				synctest.Wait()
				if most := minutes*int(time.Minute/reopenMost) + 10; cluster.opened > most || lines != c.lines {
					t.Errorf("in %d minutes it was opened %d times, want at most %d, and %d lines were logged, want %d", minutes, cluster.opened, most, lines, c.lines)
				}
			})
		})
	}
}
