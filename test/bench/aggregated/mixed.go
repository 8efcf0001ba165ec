package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
)

const (
	mixedClients = 30
	// mixedFor is how long the clients send requests at a time, and mixedTurns how often.
	mixedFor, mixedTurns = 10 * time.Second, 2
	// mixedObjects is the number of objects that they use.
	mixedObjects = 1000
)

// mixed measures how many requests a second clients with different requests get through
// kube-apiserver, and compares it with custom resources.
func (b *bench) mixed(ctx context.Context) error {
	k := b.kube
	if _, err := b.records(ctx, mixedObjects); err != nil {
		return err
	}
	theirs, err := k.newMix(ctx, recordsIn(b.namespace))
	if err != nil {
		return err
	}
	ours := *theirs
	ours.path = workspacesIn(b.namespace)
	var yardstick, own float64
	for range mixedTurns {
		for _, side := range []struct {
			mix *mix
			sum *float64
		}{{theirs, &yardstick}, {&ours, &own}} {
			rate, err := side.mix.run(ctx, mixedFor)
			if err != nil {
				return err
			}
			*side.sum += rate / mixedTurns
		}
	}
	b.table.add(row{
		measure:   fmt.Sprintf("requests a second of %d mixed clients; custom resources", mixedClients),
		yardstick: fmt.Sprintf("%.0f", yardstick), ours: fmt.Sprintf("%.0f", own), ratio: fmt.Sprintf("%.2f", own/yardstick), wanted: "at least 800",
	})
	return k.request(ctx, http.MethodDelete, definitions+"/records.bench.coder-k8s.local", nil, nil)
}

// ownConnection returns a client of kube-apiserver that shares its connection with no other.
func (k *kube) ownConnection() (*http.Client, error) {
	config := rest.CopyConfig(k.config)
	// The library shares connections only between clients without a function to dial.
	config.Dial = (&net.Dialer{}).DialContext
	return rest.HTTPClientFor(config)
}

// mix is what the clients do with the objects of a path.
type mix struct {
	host, path string
	names      []string
	clients    []*http.Client
	// round distinguishes the patches, so that each of them changes something.
	round *atomic.Int64
}

// newMix returns a mix of requests for the objects of a path.
func (k *kube) newMix(ctx context.Context, path string) (*mix, error) {
	var list struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	if err := k.request(ctx, http.MethodGet, path, nil, &list); err != nil {
		return nil, err
	}
	m := &mix{host: k.config.Host, path: path, round: &atomic.Int64{}}
	for _, item := range list.Items {
		m.names = append(m.names, item.Metadata.Name)
	}
	for range mixedClients {
		client, err := k.ownConnection()
		if err != nil {
			return nil, err
		}
		m.clients = append(m.clients, client)
	}
	return m, nil
}

// run sends requests for a while, and returns how many succeeded per second.
func (m *mix) run(ctx context.Context, duration time.Duration) (float64, error) {
	var done atomic.Int64
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for c, client := range m.clients {
		group.Go(func() error {
			// The clients begin with different requests of the cycle.
			for i := c; time.Since(began) < duration; i++ {
				// No two clients use the same object at the same time.
				name := m.names[(i*len(m.clients)+c)%len(m.names)]
				if err := m.request(ctx, client, i, name); err != nil {
					return err
				}
				done.Add(1)
			}
			return nil
		})
	}
	err := group.Wait()
	return float64(done.Load()) / time.Since(began).Seconds(), err
}

// request sends one request of the cycle: of ten, six get an object, two list the first fifty of
// the namespace, one watches an object and closes the watch, and one changes a label.
func (m *mix) request(ctx context.Context, client *http.Client, i int, name string) error {
	address := m.host + m.path + "/" + name
	switch i % 10 {
	case 2, 7:
		return exchange(ctx, client, http.MethodGet, m.host+m.path+"?limit=50", nil, nil, nil)
	case 4:
		query := url.Values{"watch": {"1"}, "fieldSelector": {"metadata.name=" + name}}
		response, err := send(ctx, client, http.MethodGet, m.host+m.path+"?"+query.Encode(), nil, nil)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		// The object itself is the first event.
		var event struct{ Type string }
		if err := json.NewDecoder(response.Body).Decode(&event); err != nil {
			return fmt.Errorf("watch of %s: %w", name, err)
		}
		if event.Type != "ADDED" {
			return fmt.Errorf("watch of %s: the first event is %s", name, event.Type)
		}
		return nil
	case 9:
		label := object{"metadata": object{"labels": object{"bench-mixed": fmt.Sprintf("m%d", m.round.Add(1))}}}
		return exchange(ctx, client, http.MethodPatch, address, nil, label, nil)
	}
	return exchange(ctx, client, http.MethodGet, address, nil, nil, nil)
}
