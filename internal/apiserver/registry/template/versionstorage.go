package template

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
)

// One write of a template's record can change several versions: if another one becomes active, two. A client that has received only
// the first of these events continues its watch there. So each event has a resourceVersion of its own: the revision of the
// record, followed by the number of the event in changeBits bits. The last event of a revision has lastChange.
const (
	changeBits        = 10
	lastChange uint64 = 1<<changeBits - 1
)

// complete returns the resourceVersion after all changes of a revision.
func complete(revision uint64) uint64 { return revision<<changeBits | lastChange }

func formatVersion(resourceVersion uint64) string { return strconv.FormatUint(resourceVersion, 10) }

// versionStorage is a read-only storage of the versions of all templates. It reads the storage of the templates, which has
// their cache, and has no state itself.
type versionStorage struct {
	storage.Interface
	prefix, templatePrefix string
}

func newVersionStorage(templates storage.Interface) *versionStorage {
	return &versionStorage{Interface: templates, prefix: records.KeyPrefix(VersionPlural), templatePrefix: records.KeyPrefix(Plural)}
}

// errReadOnly is never returned to clients, because the verbs that write are not served.
func errReadOnly() error {
	return apierrors.NewMethodNotSupported(aggregationv1alpha1.Resource(VersionPlural), "write")
}

// Create implements storage.Interface.
func (s *versionStorage) Create(context.Context, string, runtime.Object, runtime.Object, uint64) error {
	return errReadOnly()
}

// Delete implements storage.Interface.
func (s *versionStorage) Delete(context.Context, string, runtime.Object, *storage.Preconditions, storage.ValidateObjectFunc, runtime.Object, storage.DeleteOptions) error {
	return errReadOnly()
}

// GuaranteedUpdate implements storage.Interface.
func (s *versionStorage) GuaranteedUpdate(context.Context, string, runtime.Object, bool, *storage.Preconditions, storage.UpdateFunc, runtime.Object) error {
	return errReadOnly()
}

// parse returns the revision of a resourceVersion, and the number of the change in it. Text is returned for a list of templates.
func (s *versionStorage) parse(resourceVersion string) (revision, change uint64, text string, err error) {
	version, err := s.Versioner().ParseResourceVersion(resourceVersion)
	if err != nil {
		return 0, 0, "", apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
	}
	if version == 0 {
		return 0, 0, resourceVersion, nil
	}
	// The state before the first change of revision 1 has no resourceVersion.
	if version < 2<<changeBits {
		return 0, 0, "", apierrors.NewResourceExpired(fmt.Sprintf("the resource version %d is too old: list again", version))
	}
	return version >> changeBits, version & lastChange, formatVersion(version >> changeBits), nil
}

// Get implements storage.Interface.
func (s *versionStorage) Get(ctx context.Context, key string, options storage.GetOptions, out runtime.Object) error {
	found, err := versionInfo.Cast(out)
	if err != nil {
		return err
	}
	_, _, resourceVersion, err := s.parse(options.ResourceVersion)
	if err != nil {
		return err
	}
	namespace, name, _ := strings.Cut(strings.Trim(strings.TrimPrefix(key, s.prefix), "/"), "/")
	parent, _ := splitVersionName(name)
	tmpl := &aggregationv1alpha1.CoderTemplate{}
	if parent != "" {
		if err := s.Interface.Get(ctx, s.templatePrefix+"/"+namespace+"/"+parent,
			storage.GetOptions{ResourceVersion: resourceVersion, IgnoreNotFound: true}, tmpl); err != nil {
			return err
		}
	}
	resourceVersion, err = completeOf(tmpl.ResourceVersion)
	if err != nil {
		return err
	}
	all := objectsOf(tmpl, resourceVersion)
	i := slices.IndexFunc(all, func(v aggregationv1alpha1.CoderTemplateVersion) bool { return v.Name == name })
	switch {
	case i >= 0:
		*found = all[i]
	case options.IgnoreNotFound:
		*found = aggregationv1alpha1.CoderTemplateVersion{}
	default:
		return storage.NewKeyNotFoundError(key, 0)
	}
	return nil
}

func completeOf(resourceVersion string) (string, error) {
	revision, err := storage.APIObjectVersioner{}.ParseResourceVersion(resourceVersion)
	if err != nil {
		return "", apierrors.NewInternalError(err)
	}
	return formatVersion(complete(revision)), nil
}

// templatesKey returns the key of the templates of the namespace in a key, or of all.
func (s *versionStorage) templatesKey(key string) string {
	namespace, _, _ := strings.Cut(strings.Trim(strings.TrimPrefix(key, s.prefix), "/"), "/")
	return strings.TrimSuffix(s.templatePrefix+"/"+namespace, "/")
}

func everything() storage.SelectionPredicate {
	return storage.SelectionPredicate{Label: storage.Everything.Label, Field: fields.Everything(), GetAttrs: info.Attributes}
}

// GetList implements storage.Interface.
func (s *versionStorage) GetList(ctx context.Context, key string, options storage.ListOptions, list runtime.Object) error {
	out, ok := list.(*aggregationv1alpha1.CoderTemplateVersionList)
	if !ok {
		return apierrors.NewInternalError(fmt.Errorf("a list of versions is expected here, not %T", list))
	}
	prefix, err := storage.PrepareKey(s.prefix, key, options.Recursive)
	if err != nil {
		return err
	}
	exact, from, err := storage.ValidateListOptions(prefix, s.Versioner(), options)
	if err != nil {
		return err
	}
	of := storage.ListOptions{Recursive: true, Predicate: everything(), ResourceVersionMatch: options.ResourceVersionMatch}
	if exact > 0 {
		options.ResourceVersion, of.ResourceVersionMatch = strconv.FormatInt(exact, 10), metav1.ResourceVersionMatchExact
	}
	if _, _, of.ResourceVersion, err = s.parse(options.ResourceVersion); err != nil {
		return err
	}
	templates := &aggregationv1alpha1.CoderTemplateList{}
	if err := s.Interface.GetList(ctx, s.templatesKey(key), of, templates); err != nil {
		return err
	}
	revision, err := s.Versioner().ParseResourceVersion(templates.ResourceVersion)
	if err != nil {
		return err
	}
	selected := []aggregationv1alpha1.CoderTemplateVersion{}
	for i := range templates.Items {
		tmpl := &templates.Items[i]
		resourceVersion, err := completeOf(tmpl.ResourceVersion)
		if err != nil {
			return err
		}
		all := objectsOf(tmpl, resourceVersion)
		for j := range all {
			matches, err := options.Predicate.Matches(&all[j])
			if err != nil {
				return err
			}
			if matches && (from == "" || s.keyOf(&all[j]) >= from) {
				selected = append(selected, all[j])
			}
		}
	}
	// The order is that of the keys, because the next page begins with a key: team-2/ is before team/. The keys of templates have
	// another order, if the name of one begins with that of another.
	slices.SortFunc(selected, func(a, b aggregationv1alpha1.CoderTemplateVersion) int {
		return cmp.Or(cmp.Compare(a.Namespace+"/", b.Namespace+"/"), cmp.Compare(a.Name, b.Name))
	})
	total := len(selected)
	last := ""
	if limit := int(options.Predicate.Limit); limit > 0 && total > limit {
		selected = selected[:limit]
		last = s.keyOf(&selected[limit-1])
	}
	token, remaining, err := storage.PrepareContinueToken(last, prefix, int64(complete(revision)), int64(total), last != "", options) //nolint:gosec // A revision has fewer bits.
	if err != nil {
		return err
	}
	out.Items = selected
	return s.Versioner().UpdateList(out, complete(revision), token, remaining)
}

func (s *versionStorage) keyOf(v versionObject) string {
	return s.prefix + "/" + v.Namespace + "/" + v.Name
}

// Watch implements storage.Interface. The events are the differences between two states of a template. If the watch does not begin
// with the present state, the first states are those of the resourceVersion: the cache has them as long as the events.
func (s *versionStorage) Watch(ctx context.Context, key string, options storage.ListOptions) (watch.Interface, error) {
	revision, change, resourceVersion, err := s.parse(options.ResourceVersion)
	if err != nil {
		return nil, err
	}
	initial := ptr.Deref(options.SendInitialEvents, revision == 0)
	if revision == 0 && !initial {
		// The client wants the changes from now on.
		if revision, err = s.GetCurrentResourceVersion(ctx); err != nil {
			return nil, err
		}
		change, resourceVersion = lastChange, formatVersion(revision)
	}
	w := &versionWatch{
		predicate: options.Predicate, known: map[string]object{},
		events: make(chan watch.Event), stopped: make(chan struct{}),
	}
	if !initial {
		w.after = revision<<changeBits | change
		if change != lastChange {
			// The client has received a part of the changes of this revision.
			resourceVersion = formatVersion(revision - 1)
		}
	}
	of := options
	of.Recursive, of.ResourceVersion, of.Predicate = true, resourceVersion, everything()
	of.Predicate.AllowWatchBookmarks = options.Predicate.AllowWatchBookmarks
	if w.templates, err = s.Interface.Watch(ofTemplate(ctx), s.templatesKey(key), of); err != nil {
		return nil, err
	}
	if !initial {
		// Read the states of the templates at the resourceVersion.
		templates := &aggregationv1alpha1.CoderTemplateList{}
		if err := s.Interface.GetList(ctx, s.templatesKey(key), storage.ListOptions{
			Recursive: true, Predicate: everything(), ResourceVersion: resourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
		}, templates); err != nil {
			w.templates.Stop()
			return nil, err
		}
		for i := range templates.Items {
			tmpl := &templates.Items[i]
			w.known[tmpl.Namespace+"/"+tmpl.Name] = withVersionsOnly(tmpl)
		}
	}
	go w.run(ctx)
	return w, nil
}

// ofTemplate returns the context of a watch of one version as that of a watch of its template: the cache sends only the events of the object
// whose name is in the request.
func ofTemplate(ctx context.Context) context.Context {
	asked, ok := request.RequestInfoFrom(ctx)
	if !ok || asked.Name == "" {
		return ctx
	}
	of := *asked
	of.Name, _ = splitVersionName(asked.Name)
	return request.WithRequestInfo(ctx, &of)
}

// versionWatch converts the events of templates to events of their versions.
type versionWatch struct {
	templates watch.Interface
	predicate storage.SelectionPredicate
	// known are the templates, as far as their versions depend on them.
	known map[string]object
	// after is the resourceVersion of the last event that the client has received.
	after   uint64
	events  chan watch.Event
	stopped chan struct{}
	stop    sync.Once
}

// Stop implements watch.Interface.
func (w *versionWatch) Stop() {
	w.stop.Do(func() {
		close(w.stopped)
		w.templates.Stop()
	})
}

// ResultChan implements watch.Interface.
func (w *versionWatch) ResultChan() <-chan watch.Event { return w.events }

func (w *versionWatch) run(ctx context.Context) {
	defer close(w.events)
	defer w.Stop()
	for event := range w.templates.ResultChan() {
		events, err := w.convert(event)
		if err != nil {
			events = []watch.Event{{Type: watch.Error, Object: &apierrors.NewInternalError(err).ErrStatus}}
		}
		for _, e := range events {
			select {
			case w.events <- e:
			case <-w.stopped:
				return
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (w *versionWatch) convert(event watch.Event) ([]watch.Event, error) {
	if event.Type == watch.Error {
		return []watch.Event{event}, nil
	}
	object := event.Object
	if cached, ok := object.(runtime.CacheableObject); ok {
		object = cached.GetObject()
	}
	tmpl, err := info.Cast(object)
	if err != nil {
		return nil, err
	}
	revision, err := storage.APIObjectVersioner{}.ParseResourceVersion(tmpl.ResourceVersion)
	if err != nil {
		return nil, err
	}
	if event.Type == watch.Bookmark {
		mark := &aggregationv1alpha1.CoderTemplateVersion{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: formatVersion(complete(revision)), Annotations: tmpl.Annotations,
		}}
		return []watch.Event{{Type: watch.Bookmark, Object: mark}}, nil
	}
	key := tmpl.Namespace + "/" + tmpl.Name
	var before, now []aggregationv1alpha1.CoderTemplateVersion
	if known := w.known[key]; known != nil {
		// States of a template with the same versions share them, so the versions need not be compared.
		was, is := known.Status, tmpl.Status
		if event.Type == watch.Modified && known.UID == tmpl.UID && was.Versions == is.Versions && was.ActiveVersionID == is.ActiveVersionID &&
			maps.Equal(known.Labels, tmpl.Labels) {
			return nil, nil
		}
		before = objectsOf(known, "")
	}
	if delete(w.known, key); event.Type != watch.Deleted {
		now = objectsOf(tmpl, "")
		w.known[key] = withVersionsOnly(tmpl)
	}
	changes := changesOf(before, now)
	var out []watch.Event
	for i, c := range changes {
		number := min(uint64(i)+1, lastChange) //nolint:gosec // It is an index.
		if i == len(changes)-1 {
			number = lastChange
		}
		at := revision<<changeBits | number
		e, err := w.eventOf(c, formatVersion(at))
		if err != nil {
			return nil, err
		}
		if e != nil && at > w.after {
			out = append(out, *e)
		}
	}
	return out, nil
}

// withVersionsOnly returns what objectsOf reads of a template, so that a watch does not keep its files in memory. The versions are shared
// with the cache.
func withVersionsOnly(tmpl object) object {
	return &aggregationv1alpha1.CoderTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: tmpl.Namespace, Name: tmpl.Name, UID: tmpl.UID, Labels: tmpl.Labels},
		Status:     aggregationv1alpha1.CoderTemplateStatus{ActiveVersionID: tmpl.Status.ActiveVersionID, Versions: tmpl.Status.Versions},
	}
}

// versionChange is the change of a version. One of its states may be nil.
type versionChange struct{ before, after versionObject }

// changesOf returns the changes between the versions of two states of a template, in the order of their names, so that all replicas
// number them in the same way.
func changesOf(before, after []aggregationv1alpha1.CoderTemplateVersion) []versionChange {
	changes := map[string]versionChange{}
	for i := range before {
		changes[before[i].Name] = versionChange{before: &before[i]}
	}
	for i := range after {
		v := &after[i]
		c := changes[v.Name]
		if c.after = v; c.before != nil && unchanged(c.before, v) {
			delete(changes, v.Name)
			continue
		}
		changes[v.Name] = c
	}
	var out []versionChange
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		out = append(out, changes[name])
	}
	return out
}

// unchanged reports whether two states of a version are equal. The other fields are calculated from these. DeepEqual needs several times as long, and
// each watch compares all versions of a template.
func unchanged(a, b versionObject) bool {
	was, is := a.Status, b.Status
	if !was.CreatedAt.Equal(&is.CreatedAt) || !was.StartedAt.Equal(is.StartedAt) || !was.CompletedAt.Equal(is.CompletedAt) {
		return false
	}
	was.CreatedAt, was.StartedAt, was.CompletedAt = is.CreatedAt, is.StartedAt, is.CompletedAt
	return was == is && a.UID == b.UID && maps.Equal(a.Labels, b.Labels)
}

// eventOf returns the event of a change for a client, or nil if its selectors match neither state.
func (w *versionWatch) eventOf(c versionChange, resourceVersion string) (*watch.Event, error) {
	matches := func(v versionObject) (bool, error) {
		if v == nil {
			return false, nil
		}
		return w.predicate.Matches(v)
	}
	was, err := matches(c.before)
	if err != nil {
		return nil, err
	}
	is, err := matches(c.after)
	if err != nil || !was && !is {
		return nil, err
	}
	kind, shown := watch.Modified, c.after
	switch {
	case !is:
		kind, shown = watch.Deleted, c.before
	case !was:
		kind = watch.Added
	}
	object := *shown
	object.ResourceVersion = resourceVersion
	return &watch.Event{Type: kind, Object: &object}, nil
}
