package records

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// pageSize is the number of records that are requested at once, so that a list is not completely in
// memory twice: the cacher asks for 10,000. pageLimit is the maximum if few of the records match the
// selector.
const pageSize, pageLimit = 2000, 10000

// GetList implements storage.Interface. The cacher serves most lists. Only its own initial list,
// and revisions that it no longer has, are read here.
func (s *Store) GetList(ctx context.Context, key string, options storage.ListOptions, list runtime.Object) error {
	return s.list(ctx, key, options, list, nil)
}

// list is like GetList. Unless listed is nil, it also updates the Table: listed are the keys of the previous
// pages, to which it adds its own.
func (s *Store) list(ctx context.Context, key string, options storage.ListOptions, list runtime.Object, listed map[string]bool) error {
	prefix, err := storage.PrepareKey(s.config.Prefix, key, options.Recursive)
	if err != nil {
		return err
	}
	pointer, err := meta.GetItemsPtr(list)
	if err != nil {
		return err
	}
	items, err := conversion.EnforcePtr(pointer)
	if err != nil {
		return fmt.Errorf("listing into %T: %w", list, err)
	}
	if _, _, err := storage.ValidateListOptions(prefix, s.versioner, options); err != nil {
		return err
	}
	if options.ResourceVersion != "" {
		if _, err := s.versioner.ParseResourceVersion(options.ResourceVersion); err != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
		}
	}
	query := s.query(prefix, options)
	query.Limit = pageSize
	limit := options.Predicate.Limit
	if limit > 0 {
		query.Limit = min(limit, pageSize)
	}
	items.Set(reflect.MakeSlice(items.Type(), 0, 0))
	// read is the number of records on the previous pages.
	for read := int64(0); ; {
		before := items.Len()
		page, err := s.config.Cluster.List(ctx, query)
		if err != nil {
			return unavailable(ctx, "listing "+prefix, err)
		}
		last, more, err := s.add(ctx, items, page, options.Predicate, listed)
		if err != nil {
			return err
		}
		if full := limit > 0 && int64(items.Len()) >= limit; !more || full {
			token, remaining, err := storage.PrepareContinueToken(last, prefix, int64(page.Revision),
				read+int64(len(page.Records))+page.Remaining, more, options)
			if err != nil {
				return err
			}
			if token == "" && listed != nil {
				s.Table.fill(listed, page.Revision)
				s.heartbeat.saw(page.Revision)
			}
			return s.versioner.UpdateList(list, page.Revision, token, remaining)
		}
		read += int64(len(page.Records))
		query.Continue, query.ResourceVersion, query.ResourceVersionMatch = page.Continue, "", ""
		if items.Len()-before < len(page.Records)/2 {
			query.Limit = min(query.Limit*2, pageLimit)
		}
	}
}

// add appends the matching objects of a page. It returns the last key that it processed, and
// reports whether there are more records after it.
func (s *Store) add(ctx context.Context, items reflect.Value, page *List, predicate storage.SelectionPredicate, listed map[string]bool) (last string, more bool, err error) {
	found := make([]*held, len(page.Records))
	if err := inParallel(len(page.Records), func(i int) error {
		record := &page.Records[i]
		if isHeartbeat(record) {
			return nil
		}
		var err error
		found[i], err = s.holdShown(ctx, record)
		// The text is not needed any more.
		record.Object = ""
		return err
	}); err != nil {
		return "", false, internal(err)
	}
	more = page.Continue != ""
	for i, h := range found {
		last = s.Key(page.Records[i].Namespace, page.Records[i].Name)
		if h == nil {
			continue
		}
		// The Table may replace the entry by an earlier one with the same content, whose object has an
		// outdated revision.
		entry := h.entry
		if listed != nil {
			// A list has the newest state of each record up to its revision.
			if known := s.Table.get(h.key); known != nil && known.revision <= page.Revision {
				if err := s.compare(ctx, known, h.revision); err != nil {
					return "", false, err
				}
			}
			listed[h.key] = true
			s.Table.see(h)
		}
		if entry == nil {
			continue
		}
		matches, err := predicate.Matches(entry.Object)
		if err != nil {
			return "", false, err
		}
		if !matches {
			continue
		}
		items.Set(reflect.Append(items, reflect.ValueOf(entry.Object).Elem()))
		if predicate.Limit > 0 && int64(items.Len()) >= predicate.Limit {
			return last, more || i < len(found)-1, nil
		}
	}
	return last, more, nil
}

// query returns the query for the records of a prefix or a key.
func (s *Store) query(prefix string, options storage.ListOptions) Query {
	query := Query{
		ResourceVersion: options.ResourceVersion, ResourceVersionMatch: options.ResourceVersionMatch,
		Continue: options.Predicate.Continue,
	}
	rest := strings.TrimPrefix(prefix, s.config.Prefix)
	namespace, name, _ := strings.Cut(rest, "/")
	if !options.Recursive {
		if name == "" {
			namespace, name = clusterScope, namespace
		}
		query.Name = name
	}
	query.Namespace = namespace
	return query
}

// Get implements storage.Interface. Without a resourceVersion, it is a quorum read of etcd. In front
// of the cacher, served.Get decides whether it is called.
func (s *Store) Get(ctx context.Context, key string, options storage.GetOptions, out runtime.Object) error {
	key, err := s.key(key)
	if err != nil {
		return err
	}
	if _, err := s.versioner.ParseResourceVersion(options.ResourceVersion); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
	}
	record, err := s.get(ctx, key, options.ResourceVersion)
	if err != nil {
		return err
	}
	if record == nil {
		if options.IgnoreNotFound {
			return runtime.SetZeroValue(out)
		}
		return storage.NewKeyNotFoundError(key, 0)
	}
	if err := s.decode(ctx, record, out); err != nil {
		return readError(ctx, key, err)
	}
	return nil
}

// getKnown sets out to the object that this replica has, if a quorum read of etcd returns the revision
// of that object. It reports whether it has set out.
func (s *Store) getKnown(ctx context.Context, key string, out runtime.Object) (bool, error) {
	key, err := s.key(key)
	if err != nil {
		return false, err
	}
	h := s.Table.get(key)
	if h == nil || h.entry == nil || h.damaged || h.lost {
		return false, nil
	}
	namespace, name := s.Locate(key)
	revision, err := s.config.Cluster.Revision(ctx, namespace, name)
	switch {
	case isAbsent(err):
		return false, nil
	case err != nil:
		return false, unavailable(ctx, "reading "+key, err)
	case revision != h.revision:
		return false, s.compare(ctx, h, revision)
	}
	if err := assign(h.entry.Object.DeepCopyObject(), out); err != nil {
		return false, internal(err)
	}
	// The object may be older than its record, of which other parts have changed.
	return true, s.versioner.UpdateObject(out, revision)
}

// get returns the record of a key, or nil if there is no object.
func (s *Store) get(ctx context.Context, key, resourceVersion string) (*Record, error) {
	namespace, name := s.Locate(key)
	record, err := s.config.Cluster.Get(ctx, namespace, name, resourceVersion)
	switch {
	case isAbsent(err):
		return nil, nil
	case err != nil:
		return nil, unavailable(ctx, "reading "+key, err)
	case record.Object == "":
		return nil, nil
	}
	return record, nil
}

// isAbsent reports whether the record does not exist. If the resource itself does not exist,
// NotFound has no name.
func isAbsent(err error) bool {
	if !apierrors.IsNotFound(err) || isDenied(err) {
		return false
	}
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Name != ""
}

// assign sets out to the object, which the caller must own.
func assign(object, out runtime.Object) error {
	target, err := conversion.EnforcePtr(out)
	if err != nil {
		return fmt.Errorf("writing the result into %T: %w", out, err)
	}
	value := reflect.ValueOf(object).Elem()
	if target.Type() != value.Type() {
		return fmt.Errorf("writing the result into %T: the record holds %T", out, object)
	}
	target.Set(value)
	return nil
}
