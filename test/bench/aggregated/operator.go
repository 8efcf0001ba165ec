package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/coder-k8s/coder-k8s/test/bench/measure"
)

const pods = "app.kubernetes.io/name=coder-k8s"

// restart stops the operator and starts it again without overlap, so that the new pod does not take
// over the memory state of the old one. It waits until the API lists a number of workspaces.
func (k *kube) restart(ctx context.Context, want int) error {
	if err := k.scale(ctx, 0); err != nil {
		return err
	}
	if _, err := k.kubectl(ctx, "-n", "coder-system", "wait", "pod", "-l", pods, "--for=delete", "--timeout=60s"); err != nil {
		return err
	}
	if err := k.scale(ctx, 1); err != nil {
		return err
	}
	if err := k.locate(ctx); err != nil {
		return err
	}
	return k.ready(ctx, want)
}

// scale changes the number of replicas of the operator.
func (k *kube) scale(ctx context.Context, replicas int) error {
	_, err := k.kubectl(ctx, "-n", "coder-system", "scale", "deployment/coder-k8s", fmt.Sprintf("--replicas=%d", replicas))
	return err
}

// locate finds the operator's pod and process.
func (k *kube) locate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	return until(ctx, 50*time.Millisecond, func() error {
		address, err := k.kubectl(ctx, "-n", "coder-system", "get", "pods", "-l", pods, "-o", "jsonpath={.items[*].status.podIP}")
		if err != nil {
			return err
		}
		if len(strings.Fields(address)) != 1 {
			return fmt.Errorf("the operator's pods have the addresses %q, want one", address)
		}
		k.pod = strings.TrimSpace(address)
		k.process, err = process("coder-k8s", k.cgroup)
		return err
	})
}

// ready waits until the operator's pod lists workspaces, and then until the API lists this number of
// them through kube-apiserver.
func (k *kube) ready(ctx context.Context, want int) error {
	listing, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	err := until(listing, 20*time.Millisecond, func() error {
		_, _, err := timed(listing, k.direct, "https://"+k.pod+":6443"+workspaces+"?limit=1", bearer(k.account))
		return err
	})
	if err != nil {
		return err
	}
	ctx, cancel = context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	return until(ctx, 500*time.Millisecond, func() error {
		var list struct {
			Metadata struct{ RemainingItemCount int }
			Items    []struct{}
		}
		if err := k.request(ctx, http.MethodGet, workspaces+"?limit=1", nil, &list); err != nil {
			return err
		}
		if got := list.Metadata.RemainingItemCount + len(list.Items); got != want {
			return fmt.Errorf("the API lists %d workspaces, want %d", got, want)
		}
		return nil
	})
}

// forget deletes all records. Meanwhile the admission policy that allows only the operator to do
// this denies nothing.
func (k *kube) forget(ctx context.Context) error {
	enforce := func(action string) error {
		_, err := k.kubectl(ctx, "patch", "validatingadmissionpolicybinding", "coder-k8s-records", "--type=merge", "-p",
			`{"spec":{"validationActions":["`+action+`"]}}`)
		return err
	}
	if err := enforce("Audit"); err != nil {
		return err
	}
	for _, resource := range []string{"coderworkspacerecords", "codertemplaterecords", "codermirrorstates"} {
		err := until(ctx, time.Second, func() error {
			_, err := k.kubectl(ctx, "delete", "--raw", "/apis/internal.coder.com/v1alpha1/namespaces/coder/"+resource)
			return err
		})
		if err != nil {
			return err
		}
	}
	return enforce("Deny")
}

// mirroring returns the time when the operator became the writer, according to its
// log.
func (k *kube) mirroring(ctx context.Context) (time.Time, error) {
	lines, err := k.kubectl(ctx, "-n", "coder-system", "logs", "-l", pods, "--tail=-1")
	if err != nil {
		return time.Time{}, err
	}
	for line := range strings.Lines(lines) {
		if !strings.Contains(line, "Successfully acquired lease") || !strings.Contains(line, "coder-k8s-aggregated-api") {
			continue
		}
		_, rest, _ := strings.Cut(line, `"ts":"`)
		stamp, _, _ := strings.Cut(rest, `"`)
		return time.Parse(time.RFC3339Nano, stamp)
	}
	return time.Time{}, errors.New("the operator's log does not say that it mirrors Coder")
}

// process finds a process by its name in the pods of the cluster.
func process(name, cgroup string) (procfs.Proc, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return procfs.Proc{}, err
	}
	for _, p := range all {
		comm, err := p.Comm()
		if err != nil || comm != name {
			continue
		}
		groups, err := p.Cgroups()
		if err == nil && slices.ContainsFunc(groups, func(g procfs.Cgroup) bool { return strings.Contains(g.Path, cgroup+"/") }) {
			return p, nil
		}
	}
	return procfs.Proc{}, fmt.Errorf("no process %s runs in the pods of %s", name, cgroup)
}

// metrics reads the operator's metrics.
func (k *kube) metrics(ctx context.Context) (map[string]float64, error) {
	return measure.Metrics(ctx, k.direct, "https://"+k.pod+":8443/metrics", k.account)
}
