package tools

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// All returns all tools, in the order in which clients list them.
func All() *toolset.Set {
	s := &toolset.Set{Describe: describeArgument}
	addControlPlanes(s)
	addWorkspaces(s)
	addTemplates(s)
	addObservation(s)
	addDiagnosis(s)
	addInside(s)
	return s
}

// descriptions contains the descriptions of arguments that several tools have, by "argument" or, for
// one tool, by "tool.argument". All others are jsonschema tags of their fields, which take precedence. A
// model reads all of them before each conversation, so each contains only what a model could get wrong.
var descriptions = map[string]string{
	"namespace":      "Kubernetes namespace of the object: that of its control plane",
	"cursor":         "nextCursor of the previous answer",
	"limit":          "most items in one answer",
	"dryRun":         "check only, change nothing",
	"wait":           "until it is done",
	"timeoutSeconds": "how long wait may take",
	"confirm":        "name of the object, only after the user agreed",
	"tailLines":      "lines from the end of the log",
	"autostart":      "cron with time zone, like CRON_TZ=Europe/Berlin 30 9 * * 1-5, or never",
	"parameters":     "values by name of the template's parameters, as get_template shows them",

	"agent":   "agent of the workspace; needed if it has several",
	"path":    "absolute, relative to the agent's directory, or ~/…",
	"version": "version that read_workspace_file showed; fails if the file has another one",

	"list_workspace_files.namespace": "Kubernetes namespace of the workspace",
	"list_workspace_ports.namespace": "Kubernetes namespace of the workspace",
}

func describeArgument(tool, argument string) string {
	if text := descriptions[tool+"."+argument]; text != "" {
		return text
	}
	switch {
	case argument == "namespace" && strings.HasPrefix(tool, "list_") && tool != "list_control_plane_pods":
		return "all namespaces if omitted"
	case argument != "name":
		return descriptions[argument]
	case strings.Contains(tool, "template"):
		return "organization.template, as list_templates names it"
	case strings.Contains(tool, "workspace"):
		return "organization.owner.workspace, as list_workspaces names it"
	}
	return "CoderControlPlane, as list_control_planes names it"
}

type objectInput struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// listInput requests one page of the objects in a namespace, or in all namespaces.
type listInput struct {
	Namespace string `json:"namespace,omitempty"`
	Limit     int    `json:"limit,omitempty"`
	Cursor    string `json:"cursor,omitempty"`
}

// listOutput is one page of a list.
type listOutput[D any] struct {
	Items      []D    `json:"items"`
	Truncated  bool   `json:"truncated"`
	NextCursor string `json:"nextCursor,omitempty"`
}

// onePage cuts the requested page out of items, which the API returned. next is the API's
// continue token.
func onePage[T, D any](page toolset.Page, items []T, next string, describe func(*T) D) listOutput[D] {
	shown, cursor := toolset.Cut(page, items, next)
	out := listOutput[D]{Items: make([]D, 0, len(shown)), NextCursor: cursor, Truncated: cursor != ""}
	for i := range shown {
		out.Items = append(out.Items, describe(&shown[i]))
	}
	return out
}

// readPage reads one page of objects that match the filter into list. resource is the plural
// and the API group, for errors. items is the field Items of list.
func readPage[T, D any](
	ctx context.Context, call *toolset.Call, in listInput, resource string,
	list client.ObjectList, items *[]T, describe func(*T) D, filter ...client.ListOption,
) (listOutput[D], error) {
	page, err := toolset.NewPage(in.Limit, in.Cursor)
	if err != nil {
		return listOutput[D]{}, err
	}
	if err := call.Kube.List(ctx, list, page.Options(in.Namespace).ApplyOptions(filter)); err != nil {
		return listOutput[D]{}, callError("list", resource, in.Namespace, "", err)
	}
	return onePage(page, *items, list.GetContinue(), describe), nil
}

// callError adds the request to an error of the API. resource is the plural and the API
// group. It returns nil if err is nil.
func callError(verb, resource, namespace, name string, err error) error {
	if err == nil {
		return nil
	}
	return &toolset.CallError{Verb: verb, Resource: resource, Namespace: namespace, Name: name, Err: err}
}

// readObject reads an object with the caller's permissions into obj, and returns it. Tools
// can return its errors as they are.
func readObject[T client.Object](ctx context.Context, kube *callers.Kube, resource, namespace, name string, obj T) (T, error) {
	var none T
	if err := toolset.RequireObject(namespace, name); err != nil {
		return none, err
	}
	if err := kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj); err != nil {
		return none, callError("get", resource, namespace, name, err)
	}
	return obj, nil
}

// otherName returns the name in Coder, or "" if the name of the object ends with it.
func otherName(object, inCoder string) string {
	if strings.HasSuffix(object, "."+inCoder) {
		return ""
	}
	return inCoder
}

// timestamp formats a time for an answer. It returns "" for the zero time.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// timestampOf is timestamp for a Kubernetes time, which may be nil.
func timestampOf(t *metav1.Time) string {
	if t == nil {
		return ""
	}
	return timestamp(t.Time)
}

// maxExcerpt limits the size of external text in one field, in bytes.
const maxExcerpt = 1000

// excerpt returns the beginning of an external text, with secrets redacted.
func excerpt(s string) string { return redaction.Truncate(toolset.CleanText(s), maxExcerpt) }

// messageExcerpt is excerpt for the messages of pods and Events.
func messageExcerpt(s string) string { return redaction.Truncate(toolset.CleanMessage(s), maxExcerpt) }

// dryRun returns the value of the option DryRun of a write.
func dryRun(only bool) []string {
	if only {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// wouldBeAccepted returns the message of a dry run that succeeded. unchecked is what a dry run
// cannot check.
func wouldBeAccepted(unchecked string) string {
	return "dry run: this would be accepted; nothing was changed. Not checked: " + unchecked
}

// updateSpec applies change to obj, which was read before, and updates it in the API. On a
// conflict it reads the object again and repeats the change. It does not write if change
// returns false. On success, obj is the object that the API returned.
func updateSpec(ctx context.Context, call *toolset.Call, resource string, obj client.Object, only bool, change func() bool) error {
	key, fresh := client.ObjectKeyFromObject(obj), true
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if !fresh {
			if err := call.Kube.Get(ctx, key, obj); err != nil {
				return err
			}
		}
		fresh = false
		if !change() {
			return nil
		}
		return call.Kube.Update(ctx, obj, &client.UpdateOptions{DryRun: dryRun(only)})
	})
	return callError("update", resource, key.Namespace, key.Name, err)
}

// confirmed makes a change of obj with write, after the user confirmed it. dryRun and confirm are the
// arguments of these names. question is empty if the change needs no confirmation. A dry run on a
// copy of obj comes first, so that the user is not asked to confirm a change that the API would reject.
func confirmed[T client.Object](
	ctx context.Context, call *toolset.Call, obj T, dryRun bool, confirm, question string, write func(obj T, dryRun bool) error,
) error {
	if dryRun || question == "" {
		return write(obj, dryRun)
	}
	trial, ok := obj.DeepCopyObject().(T)
	if !ok {
		return fmt.Errorf("bug: the copy of a %T has another type", obj)
	}
	if err := write(trial, true); err != nil {
		return err
	}
	if err := call.Confirm(ctx, confirm, toolset.Question{Name: obj.GetName(), UID: obj.GetUID(), Text: question}); err != nil {
		return err
	}
	return write(obj, false)
}

// await waits until look reports that obj is as wanted. It returns a failure if look reports a
// problem that waiting does not solve, or if obj is deleted, with the text of deleted.
func await(
	ctx context.Context, call *toolset.Call, obj client.Object, timeout time.Duration, deleted string, look func() (done bool, problem, message string),
) error {
	failure := ""
	gone, err := call.Until(ctx, obj, timeout, func() (bool, string) {
		done, problem, message := look()
		failure = problem
		if done {
			failure = ""
		}
		return done || failure != "", message
	})
	switch {
	case err != nil:
		return err
	case gone:
		return toolset.Failed(deleted)
	case failure != "":
		return toolset.Failed(failure)
	default:
		return nil
	}
}

// readiness returns the reason and the message of condition Ready.
func readiness(conditions []metav1.Condition) (reason, message string) {
	ready := ptr.Deref(meta.FindStatusCondition(conditions, coderv1alpha1.ConditionReady), metav1.Condition{})
	return ready.Reason, excerpt(ready.Message)
}

// unreadyReason returns the reason of condition Ready, or "" if the condition is True or
// missing.
func unreadyReason(conditions []metav1.Condition) string {
	ready := meta.FindStatusCondition(conditions, aggregationv1alpha1.ConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue {
		return ""
	}
	return ready.Reason
}

// stalledMessage returns the message of condition Stalled if it is True, that is if a user
// must act, and "" otherwise.
func stalledMessage(conditions []metav1.Condition) string {
	stalled := meta.FindStatusCondition(conditions, aggregationv1alpha1.ConditionStalled)
	if stalled == nil || stalled.Status != metav1.ConditionTrue {
		return ""
	}
	return excerpt(stalled.Message)
}

func progressMessage(conditions []metav1.Condition) string {
	ready := meta.FindStatusCondition(conditions, aggregationv1alpha1.ConditionReady)
	if ready == nil {
		return "the state is not known yet"
	}
	return excerpt(ready.Message)
}

// condition is a condition of an object. Only those of Deployments have a LastUpdateTime.
type condition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	Reason             string `json:"reason,omitempty"`
	Message            string `json:"message,omitempty"`
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	LastUpdateTime     string `json:"lastUpdateTime,omitempty"`
	LastTransitionTime string `json:"lastTransitionTime,omitempty"`
}

func describeConditions(conditions []metav1.Condition) []condition {
	out := make([]condition, 0, len(conditions))
	for _, c := range conditions {
		out = append(out, condition{
			Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: excerpt(c.Message),
			ObservedGeneration: c.ObservedGeneration, LastTransitionTime: timestampOf(&c.LastTransitionTime),
		})
	}
	return out
}
