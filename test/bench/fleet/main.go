// Command fleet measures the cost of many control planes on a real cluster: the time from kubectl
// apply until all of them have their objects and a status, and then the requests and the memory of
// the operator at rest. test/bench/fleet.sh starts the cluster, installs the operator and runs this
// command.
//
// The control planes have no replicas, so no Coder runs. The figures are those of the operator and
// the API server, not Coder's.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// options are the options of the command line.
type options struct {
	kubeconfig, namespace, metrics, token string
	from, to, pid, apiserver              int
	rest, limit                           time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig of the cluster")
	flag.StringVar(&o.namespace, "namespace", "fleet", "namespace of the control planes; it must exist")
	flag.StringVar(&o.metrics, "metrics", "", "address of the operator's /metrics")
	flag.StringVar(&o.token, "token-file", "", "file with a bearer token for it")
	flag.IntVar(&o.from, "from", 0, "how many control planes there are already")
	flag.IntVar(&o.to, "to", 200, "how many there are to be")
	flag.IntVar(&o.pid, "pid", 0, "process of the operator, for its memory and its processor time")
	flag.IntVar(&o.apiserver, "apiserver-pid", 0, "process of kube-apiserver, for its processor time")
	flag.DurationVar(&o.rest, "rest", time.Minute, "how long to look at the operator at rest")
	flag.DurationVar(&o.limit, "limit", 10*time.Minute, "when to give up")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("finding the cluster: %w", err)
	}
	config.QPS = -1
	state, err := watchFleet(ctx, config, o.namespace)
	if err != nil {
		return err
	}
	if err := databases(ctx, config, o); err != nil {
		return err
	}
	before, err := readCost(ctx, o)
	if err != nil {
		return err
	}
	took, err := apply(ctx, o, state)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stdout, "apply_to_status_seconds %.1f\n", took.Seconds())
	if err := state.settle(ctx, settled); err != nil {
		return err
	}
	after, err := readCost(ctx, o)
	if err != nil {
		return err
	}
	before.printUntil(after, o.to-o.from)
	return atRest(ctx, o, state)
}

// databases creates the Secret with the address of the database of each control plane.
func databases(ctx context.Context, config *rest.Config, o options) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	for i := o.from; i < o.to; i++ {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("database-%04d", i)},
			StringData: map[string]string{"url": fmt.Sprintf("postgres://nobody@127.0.0.1:1/plane%04d", i)},
		}
		if _, err := client.CoreV1().Secrets(o.namespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating Secret %s: %w", secret.Name, err)
		}
	}
	return nil
}

// apply creates the control planes with kubectl, and waits until they are
// complete.
func apply(ctx context.Context, o options, state *fleetState) (time.Duration, error) {
	file, err := manifest(o)
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.Remove(file) }()
	start := time.Now()
	processor, err := kubectlApply(ctx, o.kubeconfig, file)
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(os.Stdout, "kubectl_apply_seconds %.1f\n", time.Since(start).Seconds())
	fmt.Fprintf(os.Stdout, "kubectl_processor_seconds %.1f\n", processor.Seconds())
	done, err := state.complete(ctx, o.to)
	if errors.Is(err, context.DeadlineExceeded) {
		return 0, fmt.Errorf("after %s not all %d control planes have their objects and status: %s", o.limit, o.to, state)
	}
	return done.Sub(start), err
}

// manifest writes a manifest of the control planes that do not exist yet.
func manifest(o options) (string, error) {
	file, err := os.CreateTemp("", "fleet-*.yaml")
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	for i := o.from; i < o.to; i++ {
		_, err := fmt.Fprintf(file, `---
apiVersion: coder.com/v1alpha1
kind: CoderControlPlane
metadata:
  name: plane-%04d
  namespace: %s
spec:
  replicas: 0
  extraEnv:
  - name: CODER_PG_CONNECTION_URL
    valueFrom:
      secretKeyRef: {name: database-%04d, key: url}
`, i, o.namespace, i)
		if err != nil {
			return "", err
		}
	}
	return file.Name(), nil
}

// kubectlApply runs kubectl, and returns the processor time that it used.
func kubectlApply(ctx context.Context, kubeconfig, file string) (time.Duration, error) {
	command := exec.CommandContext(ctx, "kubectl", "--kubeconfig", kubeconfig, "apply", "-f", file)
	out, err := command.CombinedOutput()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return 0, fmt.Errorf("kubectl apply: %w: %s", err, lines[len(lines)-1])
	}
	return command.ProcessState.UserTime() + command.ProcessState.SystemTime(), nil
}
