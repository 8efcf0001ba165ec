// Command gap measures how long clients of the aggregated API wait while something is done to a
// replica. It starts a write, a get and a list every interval, independently of each other, and
// prints the longest time without a success, what failed, and the slowest request. It ends on
// SIGINT or after -for.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

type result struct {
	start, end time.Time
	err        error
}

func main() {
	every := flag.Duration("every", 200*time.Millisecond, "how often each kind of request is started")
	length := flag.Duration("for", time.Minute, "how long")
	timeout := flag.Duration("timeout", 30*time.Second, "of one request")
	name := flag.String("workspace", "coder.admin.hello", "in namespace coder")
	flag.Parse()
	if err := run(*every, *length, *timeout, *name); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(every, length, timeout time.Duration, name string) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	config.QPS = -1
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	config.GroupVersion, config.NegotiatedSerializer = nil, nil
	config.APIPath = "/"
	c, err := rest.UnversionedRESTClientForConfigAndClient(withSerializer(config), client)
	if err != nil {
		return err
	}
	path := "/apis/aggregation.coder.com/v1alpha1/namespaces/coder/coderworkspaces"
	n := 0
	kinds := map[string]func(context.Context) error{
		"write": func(ctx context.Context) error {
			patch := fmt.Sprintf(`{"metadata":{"labels":{"gap":"n%d"}}}`, n)
			return c.Patch(types.MergePatchType).MaxRetries(0).AbsPath(path + "/" + name).Body([]byte(patch)).Do(ctx).Error()
		},
		"get": func(ctx context.Context) error {
			return c.Get().MaxRetries(0).AbsPath(path + "/" + name).Do(ctx).Error()
		},
		"list": func(ctx context.Context) error { return c.Get().MaxRetries(0).AbsPath(path).Do(ctx).Error() },
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var lock sync.Mutex
	var wait sync.WaitGroup
	results := map[string][]result{}
	ticker := time.NewTicker(every)
	begin := time.Now()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			continue
		case <-ticker.C:
		}
		n++
		for kind, do := range kinds {
			wait.Add(1)
			go func() {
				defer wait.Done()
				one, cancel := context.WithTimeout(context.Background(), timeout)
				defer cancel()
				r := result{start: time.Now()}
				r.err = do(one)
				r.end = time.Now()
				lock.Lock()
				defer lock.Unlock()
				results[kind] = append(results[kind], r)
			}()
		}
	}
	wait.Wait()
	for _, kind := range []string{"write", "get", "list"} {
		report(begin, kind, results[kind])
	}
	return nil
}

func report(begin time.Time, kind string, all []result) {
	slices.SortFunc(all, func(a, b result) int { return a.end.Compare(b.end) })
	last, gap, at := begin, time.Duration(0), time.Duration(0)
	var slowest time.Duration
	good := 0
	errs := map[string]int{}
	var firstBad, lastBad time.Duration
	for _, r := range all {
		slowest = max(slowest, r.end.Sub(r.start))
		if r.err != nil {
			if len(errs) == 0 {
				firstBad = r.start.Sub(begin)
			}
			lastBad = max(lastBad, r.start.Sub(begin))
			text := r.err.Error()
			if i := strings.Index(text, "context deadline"); i > 0 {
				text = text[i:]
			}
			errs[text]++
			continue
		}
		good++
		if d := r.end.Sub(last); d > gap {
			gap, at = d, last.Sub(begin)
		}
		last = r.end
	}
	fmt.Fprintf(os.Stdout, "%-6s %4d ok, %3d failed; longest time without a success %.2fs (at %.1fs); slowest %.2fs", kind, good, len(all)-good, gap.Seconds(), at.Seconds(), slowest.Seconds())
	if len(errs) > 0 {
		fmt.Fprintf(os.Stdout, "; failed ones started %.1fs..%.1fs", firstBad.Seconds(), lastBad.Seconds())
	}
	fmt.Fprintln(os.Stdout)
	for text, count := range errs {
		fmt.Fprintf(os.Stdout, "         %d x %.200s\n", count, text)
	}
}

func withSerializer(config *rest.Config) *rest.Config {
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	return config
}
