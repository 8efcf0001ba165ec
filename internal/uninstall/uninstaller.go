package uninstall

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/installation"
)

const (
	// stepTimeout limits the waits for Kubernetes: for the end of the operator's pods, and
	// for the deletion of the definitions and of the namespace.
	stepTimeout = time.Minute
	// poll is the polling interval.
	poll = time.Second
	// helmRelease is the annotation with the name of the Helm release.
	helmRelease = "meta.helm.sh/release-name"
)

// uninstaller removes one installation from a cluster.
type uninstaller struct {
	kube client.Client
	// timeout is the time that the operator has to remove its objects in Coder.
	timeout time.Duration
	// step is the time that Kubernetes has for each deletion.
	step time.Duration
	// namespace is the namespace of the operator.
	namespace string
	// watchNamespaces are the namespaces from the flag in which the operator worked.
	watchNamespaces                                  []string
	keep, controlPlanesOnly, keepDefinitions, dryRun bool
	// manifests receives the kept custom resources, and progress receives progress
	// messages.
	manifests, progress io.Writer

	operators []appsv1.Deployment
	objects   []object
	// metadata is the number of workspaces and templates with metadata that only Kubernetes
	// stores, which is lost with the definitions.
	metadata int
	// stayed contains sentences about what could not be removed.
	stayed []string
}

// object is a custom resource of the operator.
type object struct {
	*unstructured.Unstructured
	definition installation.Definition
}

// String returns the kind, namespace and name.
func (o object) String() string {
	return fmt.Sprintf("%s %s/%s", o.definition.Kind, o.GetNamespace(), o.GetName())
}

// gone reports whether the object or its kind does not exist.
func gone(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

// look finds the objects of the installation. It returns an error if the command must not
// be used.
func (u *uninstaller) look(ctx context.Context) error {
	list := &appsv1.DeploymentList{}
	where := client.InNamespace("")
	if u.controlPlanesOnly {
		where = client.InNamespace(u.namespace)
	}
	if err := u.kube.List(ctx, list, where, client.MatchingLabels{installation.LabelName: installation.Name}); err != nil {
		return fmt.Errorf("listing the Deployments of the operator: %w", err)
	}
	for _, d := range list.Items {
		switch release := d.Annotations[helmRelease]; {
		case d.Namespace != u.namespace:
			return fmt.Errorf("there is another installation, Deployment %s/%s, which needs the same CRDs and roles; "+
				"uninstall that one first, or use --control-planes-only and delete Deployment and namespace %s manually",
				d.Namespace, d.Name, u.namespace)
		case release != "" && !u.controlPlanesOnly:
			return fmt.Errorf("the operator, Deployment %s/%s, was installed by Helm: use helm uninstall %s -n %s, or --control-planes-only",
				d.Namespace, d.Name, release, d.Annotations["meta.helm.sh/release-namespace"])
		default:
			u.operators = append(u.operators, d)
		}
	}
	for _, definition := range installation.Definitions() {
		found, err := u.objectsOf(ctx, definition)
		if err != nil {
			return err
		}
		u.objects = append(u.objects, found...)
	}
	if u.keep && !u.keepDefinitions && !u.controlPlanesOnly {
		if err := u.countMetadata(ctx); err != nil {
			return err
		}
	}
	if watched := u.watched(); len(watched) > 0 && u.controlPlanesOnly {
		u.objects = slices.DeleteFunc(u.objects, func(o object) bool { return !slices.Contains(watched, o.GetNamespace()) })
	}
	for _, o := range u.objects {
		// The object's finalizer is all that prevents the deletion of the objects that it
		// owns.
		if u.keepDefinitions && o.GetDeletionTimestamp() != nil {
			return fmt.Errorf("%s is already being deleted, which cannot be undone, and its Coder would be deleted too; "+
				"--control-planes=keep without --keep-definitions keeps the Coder", o)
		}
	}
	return nil
}

// watched returns the namespaces in which the operator works, or none if it works in all.
// Objects in other namespaces belong to another installation.
func (u *uninstaller) watched() []string {
	all := slices.Clone(u.watchNamespaces)
	for _, d := range u.operators {
		all = append(all, installation.WatchedBy(d)...)
	}
	return all
}

// countMetadata counts the workspaces and templates with metadata that Coder cannot store.
func (u *uninstaller) countMetadata(ctx context.Context) error {
	for _, definition := range installation.RecordDefinitions() {
		found, err := u.objectsOf(ctx, definition)
		if err != nil {
			return err
		}
		for _, o := range found {
			if kept, _, _ := unstructured.NestedString(o.Object, "spec", "kept"); kept != "" {
				u.metadata++
			}
		}
	}
	return nil
}

// objectsOf lists all objects of a kind. It returns none if the kind does not exist.
func (u *uninstaller) objectsOf(ctx context.Context, definition installation.Definition) ([]object, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(definition.Resource.GroupVersion().WithKind(definition.Kind + "List"))
	if err := u.kube.List(ctx, list); gone(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("listing every %s: %w", definition.Kind, err)
	}
	var objects []object
	for i := range list.Items {
		objects = append(objects, object{&list.Items[i], definition})
	}
	return objects, nil
}

func (u *uninstaller) summary() string {
	var b strings.Builder
	what := "coder-k8s will be removed from the cluster"
	switch {
	case u.controlPlanesOnly:
		what = "coder-k8s itself stays installed"
	case u.keepDefinitions:
		what += ", except for its CRDs and their objects"
	}
	fmt.Fprintf(&b, "%s (namespace %s).", what, u.namespace)
	verb := "These objects and their pods will be removed:"
	if u.keep {
		verb = "The workloads of these objects keep running without an operator:"
	}
	if len(u.objects) > 0 {
		fmt.Fprintf(&b, "\n%s", verb)
	}
	for _, o := range u.objects {
		fmt.Fprintf(&b, "\n  %s", o)
	}
	if u.metadata > 0 {
		fmt.Fprintf(&b, "\nLabels and annotations, which Coder cannot store, are lost (workspaces, templates and users that have some: %d): "+
			"coder-k8s export -A saves them before.", u.metadata)
	}
	return b.String()
}

// run executes all steps. Their order ensures that no deletion waits for a deleted object.
func (u *uninstaller) run(ctx context.Context) error {
	handle := u.removeAll
	if u.keep {
		handle = u.keepAll
	}
	if err := handle(ctx); err != nil {
		return err
	}
	if !u.controlPlanesOnly {
		if err := u.tearDown(ctx); err != nil {
			return err
		}
	}
	if len(u.stayed) > 0 {
		return &cli.ExitError{Code: cli.ExitPartial, Err: errors.New(strings.Join(u.stayed, "\n"))}
	}
	return nil
}

// say prints what is done, or what would be done in a dry run.
func (u *uninstaller) say(format string, args ...any) {
	prefix := ""
	if u.dryRun {
		prefix = "(dry run) "
	}
	fmt.Fprintf(u.progress, prefix+format+"\n", args...)
}

func (u *uninstaller) leave(format string, args ...any) {
	u.stayed = append(u.stayed, fmt.Sprintf(format, args...))
}

// wait polls until done returns true, and returns false if the time is over before. In a
// dry run it returns immediately.
func (u *uninstaller) wait(ctx context.Context, until time.Time, done func(context.Context) (bool, error)) (bool, error) {
	if u.dryRun {
		return true, nil
	}
	for {
		finished, err := done(ctx)
		if err != nil || finished {
			return finished, err
		}
		left := time.Until(until)
		if left <= 0 {
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("interrupted; run it again to continue: %w", ctx.Err())
		case <-time.After(min(poll, left)):
		}
	}
}

func (u *uninstaller) patience() time.Time { return time.Now().Add(u.step) }

// delete deletes an object that was read before. The UID precondition prevents the deletion
// of a new object of the same name.
func (u *uninstaller) delete(ctx context.Context, obj client.Object, what string) error {
	if u.dryRun {
		u.say("%s is deleted", what)
		return nil
	}
	preconditions := client.Preconditions{}
	if uid := obj.GetUID(); uid != "" {
		preconditions.UID = &uid
	}
	err := u.kube.Delete(ctx, obj, preconditions, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil && !gone(err) {
		return fmt.Errorf("deleting %s: %w", what, err)
	}
	u.say("%s is deleted", what)
	return nil
}

// list returns the metadata of the objects of a kind. It returns none if the kind does not exist.
func (u *uninstaller) list(ctx context.Context, kind schema.GroupVersionKind, options ...client.ListOption) ([]metav1.PartialObjectMetadata, error) {
	found := &metav1.PartialObjectMetadataList{}
	found.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := u.kube.List(ctx, found, options...); err != nil && !gone(err) {
		return nil, err
	}
	for i := range found.Items {
		found.Items[i].SetGroupVersionKind(kind)
	}
	return found.Items, nil
}

// stopOperator scales the operator to zero and waits until its pods are gone, because a
// running operator would revert the changes.
func (u *uninstaller) stopOperator(ctx context.Context) error {
	for i := range u.operators {
		d := &u.operators[i]
		if ptr.Deref(d.Spec.Replicas, 1) == 0 {
			continue
		}
		u.say("Deployment %s/%s is scaled to 0", d.Namespace, d.Name)
		if u.dryRun {
			continue
		}
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":0}}`))
		if err := u.kube.Patch(ctx, d, patch); err != nil && !gone(err) {
			return fmt.Errorf("scaling Deployment %s/%s to no pods: %w", d.Namespace, d.Name, err)
		}
	}
	stopped, err := u.wait(ctx, u.patience(), u.noOperatorPods)
	if err == nil && !stopped {
		err = fmt.Errorf("the operator's pods in namespace %s did not stop within %s; check why (kubectl -n %s get pods), and run it again",
			u.namespace, u.step, u.namespace)
	}
	return err
}

// noOperatorPods reports whether the operator's Deployments have no pods. Other pods with
// the same label, such as that of a Job that runs this command, are not controlled by a
// ReplicaSet.
func (u *uninstaller) noOperatorPods(ctx context.Context) (bool, error) {
	pods, err := u.list(ctx, kind("", "Pod"), client.InNamespace(u.namespace), client.MatchingLabels{installation.LabelName: installation.Name})
	if err != nil {
		return false, fmt.Errorf("listing the operator's pods: %w", err)
	}
	return !slices.ContainsFunc(pods, func(pod metav1.PartialObjectMetadata) bool {
		owner := metav1.GetControllerOf(&pod)
		return owner != nil && owner.Kind == "ReplicaSet"
	}), nil
}
