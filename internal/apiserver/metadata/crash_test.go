package metadata_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata/metadatatest"
)

var errLost = errors.New("the connection was lost")

// TestCrash has the writer die at each write of each sequence, before and after
// it arrives. The writer after it repeats what was not answered, and nothing is
// left twice.
func TestCrash(t *testing.T) {
	sequences := map[string]struct {
		writes int
		do     func(p *place, records metadata.Records) error
		want   func(p *place) *metadata.Record
	}{
		"put": {1, func(p *place, records metadata.Records) error {
			record := labelled(p, firstID, "blue")
			if known, ok := records.Get(p.controlPlane(), firstID); ok {
				record.Version = known.Version
			}
			_, err := records.Put(p.t.Context(), record)
			return err
		}, func(p *place) *metadata.Record { return labelled(p, firstID, "blue") }},
		"create": {3, func(p *place, records metadata.Records) error {
			if _, ok := records.Get(p.controlPlane(), firstID); ok {
				return nil
			}
			pending, ok := records.PendingFor(p.controlPlane(), "CoderWorkspace", "default.alice.dev")
			if !ok {
				var err error
				if pending, err = records.Put(p.t.Context(), labelled(p, "", "blue")); err != nil {
					return err
				}
			}
			_, err := records.Bind(p.t.Context(), pending, firstID)
			return err
		}, func(p *place) *metadata.Record { return labelled(p, firstID, "blue") }},
		"change and delete": {3, func(p *place, records metadata.Records) error {
			record := labelled(p, firstID, "blue")
			if known, ok := records.Get(p.controlPlane(), firstID); ok {
				record = known.DeepCopy()
			}
			for _, value := range []string{"blue", "green"} {
				var err error
				record = record.DeepCopy()
				record.Labels["team"] = value
				if record, err = records.Put(p.t.Context(), record); err != nil {
					return err
				}
			}
			return records.Delete(p.t.Context(), record)
		}, func(*place) *metadata.Record { return nil }},
	}
	for name, sequence := range sequences {
		for n := 1; n <= sequence.writes; n++ {
			for _, arrives := range []bool{false, true} {
				for _, restart := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s, write %d, arrives %v, restart %v", name, n, arrives, restart), func(t *testing.T) {
						records := metadatatest.New(t)
						p := &place{t: t, records: records, cluster: records.Cluster(), team: "team"}
						if arrives {
							records.FailAfterWrite(n, errLost)
						} else {
							records.FailWrite(n, errLost)
						}
						if err := sequence.do(p, records); err != nil && !apierrors.IsServiceUnavailable(err) {
							t.Fatalf("the failure is told as %v", err)
						}
						if restart {
							records = records.Replica()
						}
						must(t, sequence.do(p, records))
						checkEnd(t, p, records, sequence.want(p))
					})
				}
			}
		}
	}
}

// checkEnd sweeps and compares what is left, in the store and in the cluster.
func checkEnd(t *testing.T, p *place, records *metadatatest.Records, want *metadata.Record) {
	t.Helper()
	_, err := metadata.NewJanitor(records).Sweep(t.Context(), p.controlPlane(), now, func(r *metadata.Record) bool { return true })
	must(t, err)
	all := records.All()
	if want == nil {
		if len(all) > 0 || len(records.List(p.controlPlane())) > 0 {
			t.Errorf("left is %v", all)
		}
		return
	}
	if len(all) != 1 {
		t.Fatalf("left are %d records: %v", len(all), all)
	}
	sameRecord(t, "in the cluster", all[0], want)
	got, _ := records.Get(p.controlPlane(), want.UID)
	sameRecord(t, "in the store", got, want)
}

// TestAnyOrder writes, edits and removes in any order, with a watch that lags and
// lists that are old, and looks that the writer always reads what it wrote, and
// that in the end everybody has what the cluster has.
func TestAnyOrder(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			writer := metadatatest.New(t)
			follower := writer.Replica()
			p := &place{t: t, records: writer, cluster: writer.Cluster(), team: "team"}
			ids := []types.UID{firstID, secondID, ""}
			release := func() {}
			old, err := writer.Cluster().List(t.Context())
			must(t, err)
			for step := range 60 {
				id := ids[r.IntN(len(ids))]
				switch r.IntN(9) {
				case 0:
					release()
					release = writer.HoldWatch()
				case 1:
					release()
					release = func() {}
				case 2:
					old, err = writer.Cluster().List(t.Context())
					must(t, err)
				case 3:
					// An old list is the beginning of a watch, which then tells what came after.
					release()
					release = func() {}
					for _, listing := range old {
						follower.Replace(t.Context(), listing)
						writer.Replace(t.Context(), listing)
					}
					must(t, follower.CatchUp(t.Context()))
					must(t, writer.CatchUp(t.Context()))
				case 4:
					byHand(t, p, r, id, step)
				case 5:
					if id == "" {
						if pending, ok := writer.PendingFor(p.controlPlane(), "CoderWorkspace", "default.alice.dev"); ok {
							_, err := writer.Bind(t.Context(), pending, ids[r.IntN(2)])
							mustOrConflict(t, err)
						}
						continue
					}
					mustOrConflict(t, writer.Delete(t.Context(), labelled(p, id, "")))
				default:
					writeAndRead(t, p, writer, id, fmt.Sprint(step))
				}
			}
			release()
			want := versions(writer.All())
			for who, records := range map[string]*metadatatest.Records{"writer": writer, "follower": follower, "new": writer.Replica()} {
				if got := versions(records.List(p.controlPlane())); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("the %s has %v, the cluster %v", who, got, want)
				}
			}
		})
	}
}

func versions(records []*metadata.Record) map[types.UID]string {
	out := map[types.UID]string{}
	for _, record := range records {
		out[record.UID] = record.Version
	}
	return out
}

func mustOrConflict(t *testing.T, err error) {
	t.Helper()
	if err != nil && !apierrors.IsConflict(err) {
		t.Fatal(err)
	}
}

// byHand edits or removes a record behind the back of the writer.
func byHand(t *testing.T, p *place, r *rand.Rand, id types.UID, step int) {
	t.Helper()
	key, err := metadata.ResourceKey(labelled(p, id, ""))
	must(t, err)
	resource, err := p.cluster.Get(t.Context(), key)
	switch {
	case apierrors.IsNotFound(err):
		edited, err := metadata.Encode(labelled(p, id, "made by hand"))
		must(t, err)
		must(t, p.cluster.Create(t.Context(), edited))
	case r.IntN(2) == 0:
		must(t, p.cluster.Delete(t.Context(), resource))
	default:
		edited, err := metadata.Encode(labelled(p, id, fmt.Sprint("by hand ", step)))
		must(t, err)
		resource.Spec = edited.Spec
		must(t, p.cluster.Update(t.Context(), resource))
	}
}

func writeAndRead(t *testing.T, p *place, writer *metadatatest.Records, id types.UID, value string) {
	t.Helper()
	read := func() (*metadata.Record, bool) {
		if id == "" {
			return writer.PendingFor(p.controlPlane(), "CoderWorkspace", "default.alice.dev")
		}
		return writer.Get(p.controlPlane(), id)
	}
	record := labelled(p, id, value)
	if known, ok := read(); ok {
		record.Version = known.Version
	}
	out, err := writer.Put(t.Context(), record)
	if err != nil {
		mustOrConflict(t, err)
		return
	}
	if got, ok := read(); !ok || got.Version != out.Version {
		t.Fatalf("written was version %s, read is %v", out.Version, got)
	}
}

// TestALateWatchTakesNothingBack: what the watch tells late of a resource that was
// made again in the meantime is no news, and not told as such.
func TestALateWatchTakesNothingBack(t *testing.T) {
	records := metadatatest.New(t)
	p := &place{t: t, records: records, cluster: records.Cluster(), team: "team"}
	first := p.put(labelled(p, firstID, "blue"))
	var l listener
	records.OnChange(l.listen)
	release := records.HoldWatch()
	must(t, records.Delete(t.Context(), first))
	p.put(labelled(p, firstID, "green"))
	release()
	if told := l.all(); len(told) > 0 {
		t.Errorf("told was %v", told)
	}
}

// TestALateWatchRaisesNobody: when a resource was removed again and again, the watch
// that is late by several of its lives brings none of them back.
func TestALateWatchRaisesNobody(t *testing.T) {
	records := metadatatest.New(t)
	p := &place{t: t, records: records, cluster: records.Cluster(), team: "team"}
	var l listener
	records.OnChange(l.listen)
	release := records.HoldWatch()
	for range 3 {
		must(t, records.Delete(t.Context(), p.put(labelled(p, firstID, "blue"))))
	}
	release()
	if told := l.all(); len(told) > 0 {
		t.Errorf("told was %v", told)
	}
	if got := p.get(firstID); got != nil {
		t.Errorf("there is %v", got)
	}
}

// TestALateWatchRaisesNobodyWhoWasGone: who has caught up does not see again, by a watch
// that is still behind, what was removed before.
func TestALateWatchRaisesNobodyWhoWasGone(t *testing.T) {
	records := metadatatest.New(t)
	p := &place{t: t, records: records, cluster: records.Cluster(), team: "team"}
	next := records.Replica()
	var l listener
	next.OnChange(l.listen)
	release := records.HoldWatch()
	must(t, records.Delete(t.Context(), p.put(labelled(p, firstID, "blue"))))
	last := p.put(labelled(p, secondID, "green"))
	must(t, next.CatchUp(t.Context()))
	release()
	for _, told := range l.all() {
		if told.UID != secondID || told.Version != last.Version {
			t.Errorf("told was %v", told)
		}
	}
	if got, ok := next.Get(p.controlPlane(), firstID); ok {
		t.Errorf("there is %v", got)
	}
	if got, _ := next.Get(p.controlPlane(), secondID); got == nil || got.Version != last.Version {
		t.Errorf("what is there is %v", got)
	}
}
