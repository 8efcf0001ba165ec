package replication

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
)

func benchmarkWrites(b *testing.B, forwarded bool) {
	c := &cluster{t: b, api: &leases{items: map[string]*coordinationv1.Lease{}}, logger: logr.Discard()}
	all := []*node{c.start("a", options{}), c.start("b", options{}), c.start("c", options{})}
	through := writerOf(b, all...)
	for _, n := range all {
		if forwarded && !n.Writing() {
			through = n
		}
	}
	var count atomic.Int64
	b.SetParallelism(8)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		own := count.Add(1)
		for i := 0; pb.Next(); i++ {
			if _, err := through.write(b.Context(), things, fmt.Sprint("w", own), fmt.Sprint(i)); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkWriteAtTheWriter(b *testing.B)      { benchmarkWrites(b, false) }
func BenchmarkWriteThroughAFollower(b *testing.B) { benchmarkWrites(b, true) }
