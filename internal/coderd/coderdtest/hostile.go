package coderdtest

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Hostile is a response that costs its reader as much as possible.
type Hostile string

// The hostile responses. A client must not read them to the end.
const (
	// EndlessBody is one string in JSON without an end.
	EndlessBody Hostile = "endless body"
	// GzipBomb is a string of 400 MiB that is sent as a few hundred KiB.
	GzipBomb Hostile = "gzip bomb"
	// SlowDrip is an endless body of which a byte comes from time to time.
	SlowDrip Hostile = "slow drip"
	// HugeHeader is a header of 8 MiB before a small body.
	HugeHeader Hostile = "huge header"
	// DeepJSON is JSON that is nested a million levels deep.
	DeepJSON Hostile = "deep JSON"
	// EmptyItems is a list of a million empty objects.
	EmptyItems Hostile = "empty items"
)

// HostileResponses are those that no client can read.
func HostileResponses() []Hostile {
	return []Hostile{EndlessBody, GzipBomb, SlowDrip, HugeHeader, DeepJSON, EmptyItems}
}

const (
	bombChunks = 400
	manyTimes  = 1_000_000
)

// What is sent is made once, so that a test which measures memory measures that of the
// client.
var (
	hugeHeader = sync.OnceValue(func() string { return strings.Repeat("x", 8<<20) })
	chunk      = sync.OnceValue(func() []byte { return bytes.Repeat([]byte("x"), 1<<20) })
	bombChunk  = sync.OnceValue(func() []byte { return gzipped(chunk()) })
	deepJSON   = sync.OnceValue(func() []byte { return bytes.Repeat([]byte(`{"version":`), manyTimes) })
	emptyItems = sync.OnceValue(func() []byte { return bytes.Repeat([]byte(",{}"), manyTimes) })
)

// attack answers a request until the client, or the test, has had enough.
func (s *Server) attack(f Fault, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	switch f.Hostile {
	case GzipBomb:
		w.Header().Set("Content-Encoding", "gzip")
	case HugeHeader:
		w.Header().Set("X-Huge", hugeHeader())
	}
	if f.Status != 0 {
		w.WriteHeader(f.Status)
	}
	send := func(text []byte) bool {
		_, err := w.Write(text)
		select {
		case <-s.stopped:
			return false
		default:
			return err == nil
		}
	}
	switch f.Hostile {
	case HugeHeader:
		send([]byte("{}"))
	case EndlessBody:
		send([]byte(`{"version":"`))
		for send(chunk()) {
			continue
		}
	case GzipBomb:
		// The parts of a gzip stream are read one after the other.
		send(gzipped([]byte(`{"version":"`)))
		for n := 0; n < bombChunks && send(bombChunk()); n++ {
			continue
		}
		send(gzipped([]byte(`"}`)))
	case DeepJSON:
		send(deepJSON())
	case EmptyItems:
		send([]byte("[{}"))
		send(emptyItems())
		send([]byte("]"))
	case SlowDrip:
		s.drip(w, r)
	}
}

// drip sends a byte from time to time.
func (s *Server) drip(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, `{"version":"`)
	control := http.NewResponseController(w)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		_, _ = io.WriteString(w, "x")
		if control.Flush() != nil {
			return
		}
		select {
		case <-ticker.C:
		case <-r.Context().Done():
			return
		case <-s.stopped:
			return
		}
	}
}

func gzipped(text []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	// Writing to memory does not fail.
	_, _ = w.Write(text)
	_ = w.Close()
	return out.Bytes()
}
