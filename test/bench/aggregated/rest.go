package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/coder-k8s/coder-k8s/test/bench/measure"
)

// informers starts informers of all workspaces, and waits until each has all
// workspaces. They end with the context. They store only the names, because the
// operator is measured, not they.
func (k *kube) informers(ctx context.Context, n, want int) error {
	client, err := dynamic.NewForConfig(k.config)
	if err != nil {
		return err
	}
	resource := schema.GroupVersionResource{Group: "aggregation.coder.com", Version: "v1alpha1", Resource: "coderworkspaces"}
	for range n {
		informer := dynamicinformer.NewFilteredDynamicInformer(client, resource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
		if err := informer.SetTransform(nameOnly); err != nil {
			return err
		}
		go informer.Run(ctx.Done())
		waiting, cancel := context.WithTimeout(ctx, 2*time.Minute)
		err := until(waiting, 50*time.Millisecond, func() error {
			if got := len(informer.GetStore().ListKeys()); !informer.HasSynced() || got != want {
				return fmt.Errorf("an informer knows %d workspaces, want %d", got, want)
			}
			return nil
		})
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

func nameOnly(obj any) (any, error) {
	whole, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	slim := &unstructured.Unstructured{}
	slim.SetName(whole.GetName())
	slim.SetNamespace(whole.GetNamespace())
	slim.SetUID(whole.GetUID())
	slim.SetResourceVersion(whole.GetResourceVersion())
	return slim, nil
}

// atRest measures the operator with ten informers and a client that lists all the time,
// while nothing changes: its requests to Coder, and its memory.
func (b *bench) atRest(ctx context.Context) error {
	if err := b.kube.restart(ctx, b.count+1); err != nil {
		return err
	}
	synced := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m, err := b.settled(ctx, b.count+1)
	if err != nil {
		return err
	}
	b.table.memory(fmt.Sprintf("memory with %d workspaces and 10 informers", b.count+1), m, "at most 150 MB")
	b.table.add(row{measure: "  live heap", ours: fmt.Sprintf("%.1f MB", m.heap/1e6)})
	b.table.add(row{measure: "  the most it ever was", ours: fmt.Sprintf("%.0f MB", m.peak/1e6)})
	if b.small.heap > 0 {
		more := float64(b.count - b.count/10)
		b.table.add(row{measure: "  live heap of a further workspace", ours: fmt.Sprintf("%.2f KB", (m.heap-b.small.heap)/more/1e3), wanted: "at most 4 KB"})
		b.table.add(row{
			measure: "  resident memory of a further workspace",
			ours:    fmt.Sprintf("%.2f KB", (m.resident-b.small.resident)/more/1e3),
		})
	}
	// After the first sync the mirror reads everything once more, faster than usual: a
	// hundred workspaces every two seconds.
	hurry := time.Duration(b.count/100+5) * 2 * time.Second
	if err := measure.Pause(ctx, time.Until(synced.Add(hurry))); err != nil {
		return err
	}
	lists := make(chan int, 1)
	watching, stop := context.WithTimeout(ctx, b.rest)
	defer stop()
	go func() { lists <- b.kube.listAgain(watching) }()
	if err := b.requestsAtRest(ctx); err != nil {
		return err
	}
	b.say("kubectl listed all workspaces %d times meanwhile", <-lists)
	return nil
}

// listAgain lists with kubectl until the context ends, and returns the number of lists.
func (k *kube) listAgain(ctx context.Context) int {
	for n := 0; ; n++ {
		command := exec.CommandContext(ctx, "kubectl", "--kubeconfig", k.kubeconfig, "get", "coderworkspaces", "-A")
		if command.Run() != nil || measure.Pause(ctx, 2*time.Second) != nil {
			return n
		}
	}
}

const coderRequests = "coder_k8s_coder_requests_total{"

func (b *bench) requestsAtRest(ctx context.Context) error {
	before, err := b.kube.metrics(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := measure.Pause(ctx, b.rest); err != nil {
		return err
	}
	after, err := b.kube.metrics(ctx)
	if err != nil {
		return err
	}
	minutes := time.Since(began).Minutes()
	var sum float64
	var kinds []string
	for name, value := range after {
		if strings.HasPrefix(name, coderRequests) && value > before[name] {
			sum += value - before[name]
			kinds = append(kinds, fmt.Sprintf("  %6.1f a minute: %s", (value-before[name])/minutes, strings.TrimPrefix(name, coderRequests)))
		}
	}
	if sum == 0 {
		return errors.New("the operator counts no request to Coder")
	}
	slices.Sort(kinds)
	b.say("requests to Coder at rest:\n%s", strings.Join(kinds, "\n"))
	b.table.add(row{measure: "requests to Coder at rest, a minute, beside 10 informers and kubectl", ours: fmt.Sprintf("%.1f", sum/minutes), wanted: "at most 60"})
	return nil
}
