package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	records     = "/apis/bench.coder-k8s.local/v1/records"
	// creators is the number of custom resources that are created in parallel.
	creators = 12
)

func recordsIn(namespace string) string {
	return "/apis/bench.coder-k8s.local/v1/namespaces/" + namespace + "/records"
}

type object = map[string]any

// definition returns a custom resource definition that accepts any content, as the cheapest custom
// resource does.
func definition() object {
	anything := object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	return object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": object{"name": "records.bench.coder-k8s.local"},
		"spec": object{
			"group": "bench.coder-k8s.local", "scope": "Namespaced",
			"names": object{"kind": "Record", "listKind": "RecordList", "plural": "records", "singular": "record"},
			"versions": []object{{
				"name": "v1", "served": true, "storage": true,
				"schema": object{"openAPIV3Schema": object{"type": "object", "properties": object{"spec": anything, "status": anything}}},
			}},
		},
	}
}

// records creates a custom resource of equal content for each workspace, but not more than most,
// and returns a name that both have.
func (b *bench) records(ctx context.Context, most int) (string, error) {
	k := b.kube
	var list struct{ Items []object }
	if err := k.request(ctx, http.MethodGet, workspaces, nil, &list); err != nil {
		return "", err
	}
	if len(list.Items) != b.count+1 {
		return "", fmt.Errorf("the API lists %d workspaces, want %d", len(list.Items), b.count+1)
	}
	list.Items = list.Items[:min(len(list.Items), most)]
	if err := k.define(ctx); err != nil {
		return "", err
	}
	sample := list.Items[len(list.Items)/2]
	name, _ := sample["metadata"].(object)["name"].(string)
	padding, err := k.padding(ctx, sample)
	if err != nil {
		return "", err
	}
	began := time.Now()
	group, creating := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for _, item := range list.Items {
		if item["metadata"].(object)["name"] != name {
			group.Go(func() error { return k.record(creating, item, padding) })
		}
	}
	err = group.Wait()
	b.say("made %d custom resources in %s", len(list.Items), show(time.Since(began)))
	return name, err
}

// define creates the kind, and waits until it is served. The kind of the previous phase may still
// be being deleted.
func (k *kube) define(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	err := until(ctx, 200*time.Millisecond, func() error {
		return k.request(ctx, http.MethodPost, definitions, definition(), nil)
	})
	if err != nil {
		return err
	}
	return until(ctx, 200*time.Millisecond, func() error { return k.request(ctx, http.MethodGet, records, nil, nil) })
}

// record creates the custom resource of a workspace. The fields of a workspace that
// Coder created have no managers, so those of the custom resource are removed, too.
func (k *kube) record(ctx context.Context, workspace object, padding int) error {
	meta := workspace["metadata"].(object)
	copied := object{"name": meta["name"], "namespace": meta["namespace"], "labels": meta["labels"]}
	if padding > 0 {
		copied["annotations"] = object{"pad": strings.Repeat("x", padding)}
	}
	resource := object{
		"apiVersion": "bench.coder-k8s.local/v1", "kind": "Record", "metadata": copied,
		"spec": workspace["spec"], "status": workspace["status"],
	}
	path := recordsIn(k.namespace)
	if err := k.request(ctx, http.MethodPost, path, resource, nil); err != nil {
		return err
	}
	unmanaged := object{"metadata": object{"managedFields": []object{{}}}}
	return k.request(ctx, http.MethodPatch, path+"/"+meta["name"].(string), unmanaged, nil)
}

// padding returns by how many bytes a workspace is longer than its custom resource,
// and pads the custom resource of the sample.
func (k *kube) padding(ctx context.Context, sample object) (int, error) {
	name := sample["metadata"].(object)["name"].(string)
	path := recordsIn(k.namespace) + "/" + name
	ours, err := json.Marshal(sample)
	if err != nil {
		return 0, err
	}
	// Both reads contain the empty annotation.
	padding := 1
	for range 2 {
		if err := k.record(ctx, sample, padding); err != nil {
			return 0, err
		}
		var theirs object
		if err := k.request(ctx, http.MethodGet, path, nil, &theirs); err != nil {
			return 0, err
		}
		size, err := json.Marshal(theirs)
		if err != nil {
			return 0, err
		}
		// Items of a list of workspaces have no kind and apiVersion.
		missing := len(ours) - len(size)
		if missing == 0 {
			return padding, nil
		}
		if padding += missing; padding < 1 {
			return 0, fmt.Errorf("a custom resource is %d bytes longer than a workspace", 1-padding)
		}
		if err := k.request(ctx, http.MethodDelete, path, nil, nil); err != nil {
			return 0, err
		}
	}
	if err := k.record(ctx, sample, padding); err != nil {
		return 0, errors.Join(errors.New("the last custom resource of the sample"), err)
	}
	return padding, nil
}
