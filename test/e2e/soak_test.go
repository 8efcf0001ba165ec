//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const (
	// cloneOwners is the number of owners in clone.sql. Each is a mapped user.
	cloneOwners = 20
	// soakRunning is the most workspaces that run, including coder.admin.hello.
	soakRunning  = 40
	soakWatchers = 30
	// soakReplicas is the number of replicas.
	soakReplicas = 2
	// soakTokens counts the valid tokens in Coder without those that Coder makes itself for each workspace that runs.
	soakTokens = `SELECT count(*) FROM api_keys WHERE expires_at > now() AND token_name NOT LIKE '%session_token'`
	// soakGrowth is how much higher the last third of the samples may be than the second.
	soakGrowth = 1.25
)

const soakEditor = `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: e2e-soak, namespace: coder}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:serviceaccounts:coder"}]
`

// soakInCoder has the statements that return each object of Coder with its state, by the kind that shows it. Builds whose
// Coder was killed stay in progress for five minutes, so they count too.
var soakInCoder = map[string]string{
	"codertemplates": `SELECT string_agg('coder.' || name || ' ', ',') FROM templates WHERE NOT deleted`,
	"coderusers":     `SELECT string_agg(username || ' ', ',') FROM users WHERE NOT deleted AND NOT is_system`,
	"coderworkspaces": `SELECT string_agg('coder.' || o.username || '.' || w.name || ' ' || CASE
			WHEN j.job_status NOT IN ('running', 'succeeded') THEN initcap(j.job_status::text)
			WHEN j.job_status = 'running' THEN CASE b.transition WHEN 'start' THEN 'Starting' ELSE 'Stopping' END
			WHEN b.transition = 'start' THEN 'Running true' ELSE 'Stopped false' END, ',')
		FROM workspaces w JOIN users o ON o.id = w.owner_id
		JOIN workspace_builds b ON b.workspace_id = w.id AND b.build_number = (SELECT max(build_number) FROM workspace_builds WHERE workspace_id = w.id)
		JOIN provisioner_jobs j ON j.id = b.job_id WHERE NOT w.deleted`,
}

// TestSoak runs for E2E_SOAK with E2E_SOAK_WORKSPACES workspaces and two replicas: mapped users write and read,
// workspaces start and stop, informers watch, and a fault happens in each twelfth of the time. What the operator uses
// must not grow, and at the end no object differs from Coder. It is run by hand (CONTRIBUTING.md).
func TestSoak(t *testing.T) {
	reportPanics(t)
	if t.Run("install", testInstall) && t.Run("samples", testSamples) {
		t.Run("soak", testSoak)
	}
}

func testSoak(t *testing.T) {
	explain(t, sampleNamespace)
	duration, err := time.ParseDuration(cmp.Or(os.Getenv("E2E_SOAK"), "2h"))
	if err != nil || duration < 2*time.Minute {
		t.Fatalf("E2E_SOAK is %s, want a duration of at least 2m: %v", duration, err)
	}
	s := newSoak(t)
	s.compare(t)
	s.watch(t)
	s.work()
	s.users.running.Go(func() {
		s.sample(t) // It counts the requests of the filling.
		s.samples = nil
		every(s.users.ctx, 30*time.Second, func() { s.sample(t) })
	})
	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	n := 0
	every(ctx, duration/12, func() {
		s.fault(t, n)
		n++
	})
	s.users.end(t, "soak", afterCoderNode)
	s.compare(t)
	s.flat(t)
}

// soak is a Coder with many workspaces, and the clients of the operator.
type soak struct {
	count        int
	coder        *coderd.Client
	metricsToken string
	// tokens is the number of tokens in Coder before the first mapped user, and killed that of the killed processes, which
	// leave their tokens until these expire.
	tokens float64
	killed int
	// users has the mapped users, and callers a caller for each of them.
	users   *crowd
	callers []*caller
	// written is the last acknowledged value by object. The mutex of users protects it.
	written  map[string]int
	watchers []cache.SharedIndexInformer

	began, sampled time.Time
	// requests has the requests to Coder of each pod until the last sample.
	requests map[string]float64
	samples  []map[string]float64
}

// newSoak fills Coder, and maps the owners of the workspaces.
func newSoak(t *testing.T) *soak {
	t.Helper()
	count, err := strconv.Atoi(cmp.Or(os.Getenv("E2E_SOAK_WORKSPACES"), "300"))
	if err != nil || count < soakRunning || count > coderd.MaxWorkspacePage {
		t.Fatalf("E2E_SOAK_WORKSPACES is %d, want %d to %d: %v", count, soakRunning, coderd.MaxWorkspacePage, err)
	}
	scaleOperator(t, soakReplicas)
	metricsOf(t)
	s := &soak{count: count, coder: login(t, sampleNamespace, "coder"), written: map[string]int{}, requests: map[string]float64{}}
	s.metricsToken = strings.TrimSpace(kubectl(t, "-n", "default", "create", "token", "e2e-metrics", "--duration=4h"))
	cloneWorkspaces(t, count, soakRunning-1)
	s.tokens, _ = strconv.ParseFloat(query(t, "coder", soakTokens), 64)
	apply(t, soakEditor)
	identify(t, []string{"- match: {serviceAccount: {namespace: coder, name: owner-*}}\n  coderUser: {username: \"owner-{match}\"}"})
	sampleReady(t)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	s.users = &crowd{ctx: ctx, stop: cancel, repeated: map[string]int{}}
	t.Cleanup(func() {
		cancel()
		s.users.running.Wait()
	})
	for i := range cloneOwners {
		c := throughKubernetes(t)
		c.header.Set("Impersonate-User", fmt.Sprintf("system:serviceaccount:coder:owner-%02d", i))
		s.callers = append(s.callers, c)
		polltest.Eventually(t, fmt.Sprintf("owner %d may write", i), func(ctx context.Context) error {
			status, body, err := c.do(ctx, http.MethodPatch, "/coderworkspaces/"+clonedName(cloneOwners+i), "application/merge-patch+json", `{"metadata":{"labels":{"example.com/soak":"e2e"}}}`)
			if err != nil || status != http.StatusOK {
				return fmt.Errorf("%d %w %.300s", status, err, body)
			}
			return nil
		})
	}
	return s
}

// cloneWorkspaces fills Coder with copies of coder.admin.hello. The first ones, as many as running says, seem to run.
func cloneWorkspaces(t *testing.T, total, running int) {
	t.Helper()
	fill := exec.CommandContext(polltest.Context(t), "psql", "-q", "-d", databaseURL("coder"), "-f", "../bench/aggregated/clone.sql",
		"-v", fmt.Sprint("total=", total), "-v", fmt.Sprint("running=", running)) //nolint:gosec // A file of ours.
	if out, err := fill.CombinedOutput(); err != nil {
		t.Fatalf("psql: %v\n%s", err, out)
	}
}

// clonedName returns the name of a workspace of clone.sql.
func clonedName(k int) string { return fmt.Sprintf("coder.owner-%02d.ws-%06d", k%cloneOwners, k) }

// patch changes a workspace as its owner, and reports whether that succeeded before the end.
func (s *soak) patch(k int, patch string) bool {
	return s.users.succeed(s.callers[k%cloneOwners], http.MethodPatch, "/coderworkspaces/"+clonedName(k), patch) != ""
}

// watch starts informers, which list again if a watch cannot go on. An object that is missing then counts as deleted.
func (s *soak) watch(t *testing.T) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	client := dynamic.NewForConfigOrDie(config)
	workspaces := schema.GroupVersionResource{Group: "aggregation.coder.com", Version: "v1alpha1", Resource: "coderworkspaces"}
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	for range soakWatchers {
		w := dynamicinformer.NewFilteredDynamicInformer(client, workspaces, sampleNamespace, 0, cache.Indexers{}, nil).Informer()
		_, err := w.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(object any) {
			name, _ := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
			t.Errorf("a watcher saw that %s was deleted", name)
		}})
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() { w.RunWithContext(t.Context()) })
		s.watchers = append(s.watchers, w)
	}
	polltest.Eventually(t, "the watchers have begun", func() bool {
		return !slices.ContainsFunc(s.watchers, func(w cache.SharedIndexInformer) bool { return !w.HasSynced() })
	})
}

// work starts the requests of two mapped users a second, and a start or a stop every ten seconds.
func (s *soak) work() {
	s.began, s.sampled = time.Now(), time.Now()
	for n := range 4 {
		s.users.running.Go(func() {
			every(s.users.ctx, 2*time.Second, func() {
				k := n%s.count + 1
				n += 4
				if s.patch(k, fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}}}`, streamed, n)) {
					s.users.note(func() { s.written[clonedName(k)] = n })
				}
				s.users.succeed(s.callers[k%cloneOwners], http.MethodGet, "/coderworkspaces/"+clonedName(k), "")
			})
		})
	}
	s.users.running.Go(func() {
		step := 0
		every(s.users.ctx, 10*time.Second, func() {
			// Stops the one that has run for longest, and then starts the next.
			k, start := step/2, step%2 == 1
			if start {
				k += soakRunning - 1
			}
			if s.run(k%s.count+1, start, step%8 >= 6) == nil {
				step++
			}
		})
	})
}

// run starts or stops a workspace as its owner in Kubernetes, or as an administrator in Coder.
func (s *soak) run(k int, start, inCoder bool) error {
	if !inCoder {
		s.patch(k, fmt.Sprintf(`{"spec":{"running":%t}}`, start))
		return nil
	}
	w, err := s.coder.WorkspaceByName(s.users.ctx, fmt.Sprintf("owner-%02d", k%cloneOwners), fmt.Sprintf("ws-%06d", k))
	if err == nil {
		transition := map[bool]coderd.Transition{true: "start", false: "stop"}[start]
		_, err = s.coder.Build(s.users.ctx, w.ID, coderd.BuildRequest{Transition: transition})
	}
	return err
}

// fault causes one of four faults in turn, and waits until everything is ready and no list warns.
func (s *soak) fault(t *testing.T, n int) {
	t.Helper()
	start, what := time.Now(), ""
	switch n % 4 {
	case 0:
		what = "the leader's process is killed"
		polltest.Eventually(t, "a replica mirrors", func() bool { return replicaPods(t)[mirrorLeaderPod(t)] != "" })
		killProcess(t, mirrorLeaderPod(t))
		s.killed++
	case 1:
		what = "Coder's pod is deleted"
		kubectl(t, "-n", sampleNamespace, "delete", "pod", "-l", coderLabel)
	case 2:
		what = "PostgreSQL is stopped for 30 s"
		t.Cleanup(func() { clusterScriptAfter("database.sh", "start") })
		clusterScript(t, "database.sh", "stop")
		polltest.Eventually(t, "30 s are over", func() bool { return time.Since(start) > 30*time.Second })
		clusterScript(t, "database.sh", "start")
	case 3:
		what = "all pods of the operator are deleted"
		kubectl(t, "-n", "coder-system", "delete", "pod", "-l", operatorLabel)
	}
	serving(t)
	sampleReady(t)
	toldBack(t)
	t.Logf("SOAK at %.0f s: %s; ready after %.0f s", start.Sub(s.began).Seconds(), what, time.Since(start).Seconds())
}

// soakMeasures are the values of a sample. The first three are of the pod that has most.
var soakMeasures = []string{"resident memory, MB", "goroutines", "open descriptors", "requests to Coder a minute", "records", "tokens in Coder"}

// sample measures once. A value that a fault hides is missing.
func (s *soak) sample(t *testing.T) {
	ctx, cancel := context.WithTimeout(s.users.ctx, 20*time.Second)
	defer cancel()
	a, err := theAPI()
	if err != nil {
		t.Error(err)
		return
	}
	var pods struct{ Items []map[string]any }
	err = a.read(ctx, question{namespace: "coder-system", kind: "pods", selector: operatorLabel}, &pods)
	now, each, calls, before := map[string]float64{}, "", 0.0, s.sampled
	for _, pod := range pods.Items {
		name := field(pod, "metadata", "name")
		lines, problem := scrape(ctx, field(pod, "status", "podIP"), s.metricsToken)
		if problem != nil {
			err = errors.Join(err, problem)
			continue
		}
		values := []float64{sumOf(lines, "process_resident_memory_bytes ") / 1e6, sumOf(lines, "go_goroutines "), sumOf(lines, "process_open_fds ")}
		for i, value := range values {
			now[soakMeasures[i]] = max(now[soakMeasures[i]], value)
		}
		each += fmt.Sprintf(" %s %.0f;", name[strings.LastIndex(name, "-")+1:], values)
		requests := sumOf(lines, "coder_k8s_coder_requests_total{")
		if requests < s.requests[name] {
			s.requests[name] = 0 // The process was killed.
		}
		calls += requests - s.requests[name]
		s.requests[name] = requests
	}
	if err == nil {
		s.sampled = time.Now()
		now[soakMeasures[3]] = calls / s.sampled.Sub(before).Minutes()
	}
	records, problem := tryKubectl(t, "-n", sampleNamespace, "get", "coderworkspacerecords,codertemplaterecords,coderuserrecords,codertemplatesources", "-o", "name")
	if problem == nil {
		now[soakMeasures[4]] = float64(strings.Count(records, "\n"))
	}
	db := openDatabase(t, "coder")
	defer db.Close()
	tokens := 0.0
	problem = errors.Join(problem, db.QueryRowContext(ctx, soakTokens).Scan(&tokens))
	if tokens > 0 {
		now[soakMeasures[5]] = tokens
	}
	t.Logf("SOAK at %.0f s:%s %v %v", time.Since(s.began).Seconds(), each, now, errors.Join(err, problem))
	s.samples = append(s.samples, now)
}

// sumOf returns the sum of the metrics whose lines begin with a prefix.
func sumOf(lines []string, prefix string) (sum float64) {
	for _, line := range lines {
		if strings.HasPrefix(line, prefix) {
			value, _ := strconv.ParseFloat(line[strings.LastIndex(line, " ")+1:], 64)
			sum += value
		}
	}
	return sum
}

// compare waits until what is served and what each watcher has is as in Coder.
func (s *soak) compare(t *testing.T) {
	t.Helper()
	a, err := theAPI()
	if err != nil {
		t.Fatal(err)
	}
	for kind, statement := range soakInCoder {
		polltest.Eventually(t, kind+" are as in Coder", func(ctx context.Context) error {
			want := sets.New(strings.Split(query(t, "coder", statement), ",")...)
			var list unstructured.UnstructuredList
			if err := a.read(ctx, question{namespace: sampleNamespace, kind: kind}, &list); err != nil {
				return err
			}
			served := sets.New[string]()
			for _, object := range list.Items {
				served.Insert(soakState(&object))
				value, _ := strconv.Atoi(object.GetAnnotations()[streamed])
				if written := s.written[object.GetName()]; value < written {
					return fmt.Errorf("%s was written %d, and has %d", object.GetName(), written, value)
				}
			}
			if differ := served.SymmetricDifference(want); len(differ) > 0 {
				return fmt.Errorf("%d differences: %.500s", len(differ), strings.Join(sets.List(differ), "; "))
			}
			for i, w := range s.watchers {
				seen := sets.New[string]()
				for _, object := range w.GetStore().List() {
					seen.Insert(soakState(object.(*unstructured.Unstructured)))
				}
				if differ := seen.SymmetricDifference(want); len(differ) > 0 && kind == "coderworkspaces" {
					return fmt.Errorf("watcher %d: %d differences: %.500s", i, len(differ), strings.Join(sets.List(differ), "; "))
				}
			}
			t.Logf("SOAK %d %s are as in Coder", len(want), kind)
			return nil
		})
	}
}

// soakState returns the name of an object and its state, like soakInCoder.
func soakState(object *unstructured.Unstructured) string {
	state := field(object.Object, "status", "phase")
	switch {
	case object.GetKind() != "CoderWorkspace":
		state = ""
	case state == "Running", state == "Stopped":
		state += " " + field(object.Object, "spec", "running")
	}
	return object.GetName() + " " + state
}

// flat logs the medians of each third of the samples, and checks that the last is not higher than the second.
func (s *soak) flat(t *testing.T) {
	t.Helper()
	for _, measure := range soakMeasures {
		var medians [3]float64
		highest := 0.0
		for third := range medians {
			var values []float64
			for _, sample := range s.samples[len(s.samples)*third/3 : len(s.samples)*(third+1)/3] {
				if value, ok := sample[measure]; ok {
					values, highest = append(values, value), max(highest, value)
				}
			}
			if len(values) == 0 {
				t.Fatalf("%s: no samples", measure)
			}
			slices.Sort(values)
			medians[third] = values[len(values)/2]
		}
		t.Logf("SOAK | %s | %.0f | %.0f | %.0f | %.0f |", measure, medians[0], medians[1], medians[2], highest)
		// Mapped users get their tokens one after the other. Each has at most one of each replica.
		if most := s.tokens + float64(cloneOwners*(soakReplicas+s.killed)); measure == soakMeasures[5] && highest > most {
			t.Errorf("%s were %.0f, want at most %.0f", measure, highest, most)
		} else if measure != soakMeasures[5] && medians[2] > soakGrowth*medians[1] {
			t.Errorf("%s grew from %.0f to %.0f", measure, medians[1], medians[2])
		}
	}
}
