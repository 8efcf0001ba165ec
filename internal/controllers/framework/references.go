package framework

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

// content is what a Secret or ConfigMap held when it was read. Values are kept only as hashes. An
// empty version means that the object did not exist.
type content struct {
	version string
	keys    map[string][sha256.Size]byte
}

func (c content) missing() bool { return c.version == "" }

// contents are those of the Secrets and ConfigMaps that an object uses, by "<kind>/<name>".
type contents map[string]content

// ReadReferences completes the Workload with state of the cluster: the names of the variables from
// spec.envFrom, the checksum of the Secrets and ConfigMaps that the pods refer to, and whether
// another client, for example a HorizontalPodAutoscaler, scales the Deployment and the spec has not asked for
// another number of replicas since.
func (t *Toolkit) ReadReferences(ctx context.Context, p *Pass) error {
	before, _ := t.contents.Load(p.Object.GetUID())
	p.known, _ = before.(contents)
	p.contents = contents{}
	err := t.readReferences(ctx, p)
	t.contents.Store(p.Object.GetUID(), p.contents)
	var d *appsv1.Deployment
	if err == nil {
		d, err = p.OwnDeployment(ctx, t.Client)
	}
	if err != nil {
		p.Complain(coderv1alpha1.ReasonApplyFailed, Redact(err.Error()))
		return err
	}
	if d != nil {
		// A stale cache may not contain the last change of an autoscaler. With this resource version,
		// an apply that would undo the change fails.
		p.seen = d.ResourceVersion
		asked := strconv.Itoa(int(resources.SpecReplicas(p.Workload)))
		p.Workload.KeepReplicas = d.Annotations[coderv1alpha1.AnnotationReplicas] == asked && replicasOwnedByOthers(d)
	}
	return nil
}

func (t *Toolkit) readReferences(ctx context.Context, p *Pass) error {
	names, err := t.envFromNames(ctx, p)
	if err != nil {
		return err
	}
	p.Workload.EnvFromNames = names
	references := ReferencesOf(p.Workload)
	if len(references) == 0 {
		return nil
	}
	sum := sha256.New()
	for _, reference := range references {
		known, err := t.contentOf(ctx, p, reference.Kind, reference.Name)
		if err != nil {
			return err
		}
		addTo(sum, reference, known)
		missing, named := missingOf(p, reference, known)
		switch {
		case missing == nil:
		case named:
			p.Missing = slices.Insert(p.Missing, 0, *missing)
		default:
			p.Missing = append(p.Missing, *missing)
		}
	}
	p.Workload.Checksum = hex.EncodeToString(sum.Sum(nil))
	// New pods cannot start without a missing object, so it must not replace running pods.
	if len(p.Missing) > 0 && p.Workload.Live != nil {
		running := p.Workload.Live.Annotations[coderv1alpha1.AnnotationConfigChecksum]
		if running == "" && p.Workload.Adopted != nil {
			running = p.Current.Annotations[coderv1alpha1.AnnotationAdoptedChecksum]
		}
		p.Workload.Checksum = cmp.Or(running, p.Workload.Checksum)
	}
	if p.Current != nil {
		resources.RememberChecksum(&p.Workload, p.Current)
	}
	return nil
}

// WaitForCache waits until the cache contains this version of a Secret, so that the checksum of the
// pods is that of its current content.
func (t *Toolkit) WaitForCache(ctx context.Context, namespace, name, version string) error {
	seen := &metav1.PartialObjectMetadata{}
	seen.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := t.Metadata.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, seen)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the metadata of Secret %q: %w", name, err)
	}
	if seen.ResourceVersion == version {
		return nil
	}
	return ensure.Waits(coderv1alpha1.ReasonWaiting, ConflictInterval, "waiting until the cache contains Secret %q", name)
}

// envFromNames returns the names of the variables from spec.envFrom. The operator must not override
// one of them, for example CODER_ACCESS_URL. While a required object is missing, the names include
// those that it may have provided to the running pods.
func (t *Toolkit) envFromNames(ctx context.Context, p *Pass) (map[string]bool, error) {
	names := map[string]bool{}
	for _, source := range p.Workload.Spec.EnvFrom {
		kind, name, optional := resources.KindSecret, "", false
		switch {
		case source.ConfigMapRef != nil:
			kind, name, optional = resources.KindConfigMap, source.ConfigMapRef.Name, ptr.Deref(source.ConfigMapRef.Optional, false)
		case source.SecretRef != nil:
			name, optional = source.SecretRef.Name, ptr.Deref(source.SecretRef.Optional, false)
		default:
			continue
		}
		known, err := t.contentOf(ctx, p, kind, name)
		if err != nil {
			return nil, err
		}
		for key := range known.keys {
			names[source.Prefix+key] = true
		}
		if known.missing() && !optional {
			maps.Copy(names, resources.NamesNotSet(p.Workload))
		}
	}
	return names, nil
}

func addTo(sum hash.Hash, reference resources.Reference, known content) {
	fmt.Fprintf(sum, "%s/%s\x00", reference.Kind, reference.Name)
	keys := reference.Keys
	if keys == nil {
		keys = slices.Sorted(maps.Keys(known.keys))
	}
	if known.missing() {
		fmt.Fprint(sum, "missing\x00")
		return
	}
	for _, key := range keys {
		value, found := known.keys[key]
		if !found {
			fmt.Fprintf(sum, "%s\x00missing\x00", key)
			continue
		}
		fmt.Fprintf(sum, "%s\x00%x\x00", key, value)
	}
}

// missingOf returns a problem if a reference prevents pods from starting. named reports whether the
// kind described the problem, which is more precise than the general message.
func missingOf(p *Pass, reference resources.Reference, known content) (missing *Problem, named bool) {
	if reference.Optional {
		return nil, false
	}
	key := ""
	if !known.missing() {
		at := slices.IndexFunc(reference.Keys, func(key string) bool {
			_, found := known.keys[key]
			return !found
		})
		if at < 0 {
			return nil, false
		}
		key = reference.Keys[at]
	}
	if p.Hooks.MissingReference != nil {
		if missing := p.Hooks.MissingReference(reference, key); missing != nil {
			return missing, true
		}
	}
	reason := coderv1alpha1.ReasonSecretMissing
	if reference.Kind == resources.KindConfigMap {
		reason = coderv1alpha1.ReasonConfigMapMissing
	}
	if key != "" {
		return &Problem{reason, fmt.Sprintf("%s %q, which the pods refer to, has no key %q; add it, or remove the reference from the spec",
			reference.Kind, reference.Name, key)}, false
	}
	return &Problem{reason, fmt.Sprintf("%s %q, which the pods refer to, does not exist; create it, or remove the reference from the spec",
		reference.Kind, reference.Name)}, false
}

// contentOf returns the content of a Secret or ConfigMap as hashes. It asks the API server only if
// the metadata cache has another resource version than the last content that was read.
func (t *Toolkit) contentOf(ctx context.Context, p *Pass, kind, name string) (content, error) {
	key := client.ObjectKey{Namespace: p.Object.GetNamespace(), Name: name}
	cached := &metav1.PartialObjectMetadata{}
	cached.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	err := t.Metadata.Get(ctx, key, cached)
	if client.IgnoreNotFound(err) != nil {
		return content{}, fmt.Errorf("reading %s %q: %w", kind, name, err)
	}
	version := cached.GetResourceVersion()
	if apierrors.IsNotFound(err) {
		version = ""
	}
	known, ok := p.contents[kind+"/"+name]
	if !ok {
		known, ok = p.known[kind+"/"+name]
	}
	if !ok || known.version != version {
		// The cache may be stale, so the content always comes from the API server.
		if known, err = t.readContent(ctx, kind, key); err != nil {
			return content{}, fmt.Errorf("reading %s %q: %w", kind, name, err)
		}
	}
	p.contents[kind+"/"+name] = known
	return known, nil
}

func (t *Toolkit) readContent(ctx context.Context, kind string, key client.ObjectKey) (content, error) {
	secret, configMap := &corev1.Secret{}, &corev1.ConfigMap{}
	var obj client.Object = secret
	if kind == resources.KindConfigMap {
		obj = configMap
	}
	if err := t.Live.Get(ctx, key, obj); err != nil {
		return content{}, client.IgnoreNotFound(err)
	}
	known := content{version: obj.GetResourceVersion(), keys: map[string][sha256.Size]byte{}}
	for _, data := range []map[string][]byte{secret.Data, configMap.BinaryData} {
		for key, value := range data {
			known.keys[key] = sha256.Sum256(value)
		}
	}
	for key, value := range configMap.Data {
		known.keys[key] = sha256.Sum256([]byte(value))
	}
	return known, nil
}
