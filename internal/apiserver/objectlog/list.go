package objectlog

import (
	"context"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/utils/third_party/forked/golang/btree"
)

// contextEvery is after how many entries a long list looks whether anybody still
// wants it.
const contextEvery = 1024

// page is one answer to a list in the making.
type page struct {
	store    *Store
	prefix   string
	from     string
	revision int64
	options  storage.ListOptions
	matches  []*Entry
	// last is the last key that was looked at, seen how many were there from the
	// beginning of the page on.
	last string
	seen int64
	// more says that there is another page.
	more bool
}

// GetList gives the objects under a key, at the revision that the options ask for.
func (s *Store) GetList(ctx context.Context, key string, options storage.ListOptions, list runtime.Object) error {
	prefix, err := storage.PrepareKey(s.config.Prefix, key, options.Recursive)
	if err != nil {
		return err
	}
	items, err := itemsOf(list)
	if err != nil {
		return err
	}
	exact, from, err := storage.ValidateListOptions(prefix, s.versioner, options)
	if err != nil {
		return err
	}
	if err := s.ready(); err != nil {
		return err
	}
	if from == "" {
		from = prefix
	}
	tree, revision, err := s.listed(ctx, exact, from, prefix, options)
	if err != nil {
		return err
	}
	p := &page{store: s, prefix: prefix, from: from, revision: int64(revision), options: options}
	err = p.collect(ctx, tree)
	// What was read before an error belongs into the list all the same.
	p.fill(items)
	if err != nil {
		return err
	}
	return p.finish(list)
}

func itemsOf(list runtime.Object) (reflect.Value, error) {
	pointer, err := meta.GetItemsPtr(list)
	if err != nil {
		return reflect.Value{}, err
	}
	items, err := conversion.EnforcePtr(pointer)
	if err == nil && items.Kind() != reflect.Slice {
		err = fmt.Errorf("its items are no slice but %v", items.Kind())
	}
	if err != nil {
		return reflect.Value{}, fmt.Errorf("listing into %T: %w", list, err)
	}
	return items, nil
}

// listed gives the state at the exact revision, or at the head where that is 0,
// and its revision.
func (s *Store) listed(ctx context.Context, exact int64, from, prefix string, options storage.ListOptions) (*btree.BTree[*Entry], uint64, error) {
	if exact == 0 {
		if options.ResourceVersion == "" {
			if _, err := s.fresh(ctx); err != nil {
				return nil, 0, err
			}
		}
		tree, head := s.config.Log.state()
		return tree, head, s.notOlder(options.ResourceVersion, head)
	}
	revision := uint64(exact)
	tree, head, ok := s.config.Log.stateAt(revision)
	if !ok {
		return nil, 0, expired(options.Predicate.Continue != "", from, prefix)
	}
	if revision > head {
		return nil, 0, storage.NewTooLargeResourceVersionError(revision, head, retryAfterSeconds)
	}
	return tree, revision, nil
}

// collect reads the entries of the page.
func (p *page) collect(ctx context.Context, tree *btree.BTree[*Entry]) (err error) {
	if !p.options.Recursive {
		if entry, ok := tree.Get(&Entry{Key: p.prefix}); ok {
			_, err = p.take(ctx, entry)
		}
		return err
	}
	ascend(tree, p.prefix, p.from, func(entry *Entry) bool {
		var on bool
		on, err = p.take(ctx, entry)
		return on && err == nil
	})
	return err
}

// take says whether to go on.
func (p *page) take(ctx context.Context, entry *Entry) (bool, error) {
	predicate := &p.options.Predicate
	p.seen++
	if predicate.Limit > 0 && int64(len(p.matches)) >= predicate.Limit {
		p.more = true
		// The rest is only counted where the client is told the number.
		return predicate.Empty(), nil
	}
	if p.seen%contextEvery == 0 && ctx.Err() != nil {
		return false, storage.NewTimeoutError(entry.Key, "the request did not complete within its time")
	}
	p.last = entry.Key
	if p.store.inspect != nil {
		if _, err := p.store.inspect(ctx, entry); err != nil {
			return false, storage.NewInternalError(fmt.Errorf("unable to transform key %q: %w", entry.Key, err))
		}
	}
	if matches(predicate, entry.Object) {
		p.matches = append(p.matches, entry)
	}
	return true, nil
}

// matches says whether an object is selected. One that cannot be matched is not.
func matches(predicate *storage.SelectionPredicate, object runtime.Object) bool {
	if predicate.Empty() {
		return true
	}
	ok, err := predicate.Matches(object)
	return ok && err == nil
}

// fill sets the items. They share maps and slices with the log, as those from the
// cacher do with it: nobody may write to what a list gave.
func (p *page) fill(items reflect.Value) {
	all := reflect.MakeSlice(items.Type(), len(p.matches), len(p.matches))
	for i, entry := range p.matches {
		all.Index(i).Set(reflect.ValueOf(entry.Object).Elem())
	}
	items.Set(all)
}

// finish sets the revision and the token for the next page.
func (p *page) finish(list runtime.Object) error {
	token, remaining, err := storage.PrepareContinueToken(p.last, p.prefix, p.revision, p.seen, p.more, p.options)
	if err != nil {
		return err
	}
	if err := p.store.versioner.UpdateList(list, uint64(p.revision), token, remaining); err != nil {
		return err
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.ShardedListAndWatch) {
		p.options.Predicate.SetShardInfoOnList(list)
	}
	return nil
}

// expired is the answer for a revision that is no longer kept. A client that reads
// page by page gets a token with which it can go on at the head.
func expired(paging bool, from, prefix string) error {
	if !paging {
		return apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	}
	const tooOld = "The provided continue parameter is too old to display a consistent list result. " +
		"You can start a new list without the continue parameter"
	token, err := storage.EncodeContinue(from, prefix, -1)
	if err != nil {
		return apierrors.NewResourceExpired(tooOld + ".")
	}
	status := apierrors.NewResourceExpired(tooOld + ", or use the continue token in this response to retrieve " +
		"the remainder of the results. Continuing with the provided token results in an inconsistent list: " +
		"objects that were created, modified, or deleted between the time the first chunk was returned " +
		"and now may show up in the list.")
	status.ErrStatus.Continue = token
	return status
}
