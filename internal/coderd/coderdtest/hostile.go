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

// Hostile is a kind of response that is as expensive as possible for the client.
type Hostile string

// The hostile responses. A client must not read them completely.
const (
	// EndlessBody is a JSON string without an end.
	EndlessBody Hostile = "endless body"
	// GzipBomb is a string of 400 MiB, compressed to a few hundred KiB.
	GzipBomb Hostile = "gzip bomb"
	// SlowDrip is an endless body that is sent byte by byte, with pauses.
	SlowDrip Hostile = "slow drip"
	// HugeHeader is a header of 8 MiB with a small body.
	HugeHeader Hostile = "huge header"
	// DeepJSON is JSON with a million levels of nesting.
	DeepJSON Hostile = "deep JSON"
	// EmptyItems is a list of a million empty objects.
	EmptyItems Hostile = "empty items"
)

// HostileResponses returns all hostile responses.
func HostileResponses() []Hostile {
	return []Hostile{EndlessBody, GzipBomb, SlowDrip, HugeHeader, DeepJSON, EmptyItems}
}

const (
	bombChunks = 400
	manyTimes  = 1_000_000
)

// The payloads are built once, so that a test that measures memory measures only the client's.
var (
	hugeHeader = sync.OnceValue(func() string { return strings.Repeat("x", 8<<20) })
	chunk      = sync.OnceValue(func() []byte { return bytes.Repeat([]byte("x"), 1<<20) })
	bombChunk  = sync.OnceValue(func() []byte { return gzipped(chunk()) })
	deepJSON   = sync.OnceValue(func() []byte { return bytes.Repeat([]byte(`{"version":`), manyTimes) })
	emptyItems = sync.OnceValue(func() []byte { return bytes.Repeat([]byte(",{}"), manyTimes) })
)

// attack sends a hostile response until the client disconnects or the test ends.
func (s *Server) attack(f *Fault, w http.ResponseWriter, r *http.Request) {
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
		// A gzip stream may have several parts, which are read in sequence.
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

// drip sends one byte at a time, with pauses.
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
	// Writing to memory cannot fail.
	_, _ = w.Write(text)
	_ = w.Close()
	return out.Bytes()
}
