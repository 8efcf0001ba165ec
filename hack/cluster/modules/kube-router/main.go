// kube-router's controller of NetworkPolicies, without its router, its proxy and its load balancer: it writes iptables
// rules and ipsets on its node.
package main

import (
	"context"
	"maps"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/cloudnativelabs/kube-router/v2/pkg/controllers/netpol"
	"github.com/cloudnativelabs/kube-router/v2/pkg/healthcheck"
	"github.com/cloudnativelabs/kube-router/v2/pkg/options"
	"github.com/cloudnativelabs/kube-router/v2/pkg/utils"
	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

func main() {
	config := options.NewKubeRouterConfig()
	config.AddFlags(pflag.CommandLine)
	pflag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, config); err != nil {
		klog.ErrorS(err, "Could not start")
		os.Exit(1)
	}
}

func run(ctx context.Context, config *options.KubeRouterConfig) error {
	rest, err := clientcmd.BuildConfigFromFlags(config.Master, config.Kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods, namespaces := factory.Core().V1().Pods().Informer(), factory.Core().V1().Namespaces().Informer()
	policies := factory.Networking().V1().NetworkPolicies().Informer()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	tables, sets, err := netpol.NewIPTablesHandlers(config)
	if err != nil {
		return err
	}
	for family, all := range sets {
		sets[family] = ownSets{all, family}
	}
	controller, err := netpol.NewNetworkPolicyController(client, config, pods, policies, namespaces, &sync.Mutex{}, tables, sets)
	if err != nil {
		return err
	}
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		pods: controller.PodEventHandler, namespaces: controller.NamespaceEventHandler, policies: controller.NetworkPolicyEventHandler,
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	beats := make(chan *healthcheck.ControllerHeartbeat)
	go func() {
		for range beats { // Nobody asks for its health.
		}
	}()
	var running sync.WaitGroup
	running.Add(1)
	controller.Run(beats, ctx.Done(), &running)
	running.Wait()
	return nil
}

// ownSets are the sets of one family. Without it, release 2.1.0 also remembers those of the other family, and writes them as they
// were: with both families, a new pod stayed in no set, so that it could reach nothing that a policy allows.
type ownSets struct {
	utils.IPSetHandler
	family v1.IPFamily
}

// Save implements utils.IPSetHandler.
func (s ownSets) Save() error {
	err := s.IPSetHandler.Save()
	maps.DeleteFunc(s.Sets(), func(name string, _ *utils.Set) bool {
		return strings.HasPrefix(name, utils.IPv6SetPrefix+":") != (s.family == v1.IPv6Protocol)
	})
	return err
}
