package template

import (
	"container/list"
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// maxCached bounds the text that is kept of archives.
const maxCached = 64 << 20

// source is the text of an archive, or why it has none.
type source struct {
	files   map[string]string
	problem string
}

func (s source) size() int {
	n := len(s.problem) + 256
	for name, text := range s.files {
		n += len(name) + len(text)
	}
	return n
}

type sourceKey struct {
	controlPlane types.NamespacedName
	file         uuid.UUID
}

// sources keeps what archives hold, those used last.
type sources struct {
	limit int

	mu      sync.Mutex
	size    int
	order   *list.List // of *entry, the one used last in front
	entries map[sourceKey]*list.Element
}

type entry struct {
	key    sourceKey
	source source
}

func newSources(limit int) *sources {
	return &sources{limit: limit, order: list.New(), entries: map[sourceKey]*list.Element{}}
}

// read gives the text of an archive. An error means that Coder did not answer;
// an archive that nobody can read is not an error but has a problem. The caller
// may change the map.
func (s *sources) read(ctx context.Context, connection connections.Connection, file uuid.UUID) (source, error) {
	key := sourceKey{connection.ControlPlane, file}
	found, ok := s.get(key)
	if !ok {
		archive, err := connection.Client.DownloadArchive(ctx, file)
		switch {
		case err == nil:
			found = source{files: archive.TextFiles()}
		case passing(err):
			return source{}, err
		default:
			found = source{problem: fmt.Sprintf("the source of the version cannot be shown: %v", err)}
		}
		s.put(key, found)
	}
	return source{files: maps.Clone(found.files), problem: found.problem}, nil
}

// passing says that the same request may succeed another time.
func passing(err error) bool {
	return coderd.IsUnreachable(err) || coderd.IsRateLimited(err) || coderd.IsUnauthorized(err)
}

func (s *sources) get(key sourceKey) (source, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	element, ok := s.entries[key]
	if !ok {
		return source{}, false
	}
	s.order.MoveToFront(element)
	return element.Value.(*entry).source, true
}

func (s *sources) put(key sourceKey, value source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.entries[key]; ok {
		return
	}
	s.entries[key] = s.order.PushFront(&entry{key, value})
	s.size += value.size()
	for s.size > s.limit && s.order.Len() > 1 {
		oldest := s.order.Remove(s.order.Back()).(*entry)
		delete(s.entries, oldest.key)
		s.size -= oldest.source.size()
	}
}
