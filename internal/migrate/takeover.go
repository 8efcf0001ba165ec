package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/version"
)

// handOver takes the running objects over, or only prints the plan.
func (o *options) handOver(ctx context.Context, source Source, manifest *Manifest, report *Report) error {
	kube, err := o.client()
	if err != nil {
		return err
	}
	t := &takeover{
		Client: kube, Manifest: manifest, Release: source.Release, Deployment: DeploymentName(source.Chart, source.Values),
	}
	plan, err := t.Plan(ctx)
	if err != nil {
		return errors.Join(err, o.write(manifest, report))
	}
	report.Steps = append(report.Steps, stepsAfter(source, manifest)...)
	if err := o.write(manifest, report); err != nil {
		return err
	}
	o.tellPlan(plan)
	switch {
	case o.dryRun:
		return nil
	case len(plan.Differences) > 0 && !o.allowRestart:
		return errors.New("nothing was changed, because pods would be replaced, one by one; " +
			"give --allow-restart to go on, or correct the fields above in the release first")
	}
	return o.take(ctx, t, plan)
}

func (o *options) take(ctx context.Context, t *takeover, plan *takeoverPlan) error {
	before, err := t.Pods(ctx)
	if err != nil {
		return err
	}
	if err := t.Run(ctx, plan, o.timeout); err != nil {
		return err
	}
	after, err := t.Pods(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(o.streams.ErrOut, "taken over: %s %s/%s; %d of %d pods are still the same\n",
		t.Manifest.Kind, t.Manifest.Namespace, t.Manifest.Name, before.Intersection(after).Len(), before.Len())
	return nil
}

func (o *options) tellPlan(plan *takeoverPlan) {
	verb := "hands over"
	if o.dryRun {
		verb = "would hand over"
	}
	fmt.Fprintf(o.streams.ErrOut, "\n%s: %s\n", verb, strings.Join(plan.Objects, ", "))
	if plan.Already {
		fmt.Fprintln(o.streams.ErrOut, "the operator already owns the Deployment")
	}
	if len(plan.Differences) == 0 {
		fmt.Fprintln(o.streams.ErrOut, "the pods stay: their template is equal")
		return
	}
	fmt.Fprintln(o.streams.ErrOut, "the pods would be replaced one by one, because of:")
	for _, difference := range plan.Differences {
		fmt.Fprintf(o.streams.ErrOut, "  %s\n", difference)
	}
}

func (o *options) client() (client.Client, error) {
	config, err := o.config.Cluster(version.UserAgent())
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), coderv1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("bug: %w", err)
	}
	kube, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("reaching the cluster: %w", err)
	}
	return kube, nil
}

const howTo = "docs/how-to/migrate-from-helm.md"

// nextSteps returns the next steps if the manifest was only written.
func nextSteps(source Source, manifest *Manifest) []string {
	return []string{
		fmt.Sprintf("Check whether the cluster accepts it: `kubectl apply --dry-run=server -f %s`.", manifest.FileName()),
		fmt.Sprintf("Take the running objects over in place: `coder-k8s migrate helm --release %s -n %s --take-over --dry-run` says what would happen.",
			source.Release, source.Namespace),
		fmt.Sprintf("Or move with a pause: %s. A %s does not touch objects of the release that were not handed over.",
			howTo, strings.ToLower(manifest.Kind)),
	}
}

// stepsAfter returns the next steps after the objects were taken over.
func stepsAfter(source Source, manifest *Manifest) []string {
	kind := strings.ToLower(manifest.Kind)
	return []string{
		fmt.Sprintf("Store the manifest with your other manifests: it is what `kubectl -n %s get %s %s` returns now.",
			manifest.Namespace, kind, manifest.Name),
		fmt.Sprintf("Do not run `helm uninstall %s`: it would delete the objects that were taken over. Until Helm's record of the release is deleted, `helm upgrade` may overwrite it.",
			source.Release),
		fmt.Sprintf("When everything works, delete Helm's record of the release: `kubectl -n %s delete secret -l owner=helm,name=%s`. This deletes only data of Helm.",
			source.Namespace, source.Release),
		"Other objects of the chart stay until you delete them: Role and RoleBinding for workspaces, for which the operator has its own, and what came from `extraTemplates`.",
		fmt.Sprintf("To go back, before Helm's record is deleted: `kubectl -n %s delete %s %s --cascade=orphan`, then `helm -n %s upgrade` as before.",
			manifest.Namespace, kind, manifest.Name, source.Namespace),
	}
}
