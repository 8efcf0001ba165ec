package resources

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// meta returns the metadata of an object of the workload. The labels of the workload override those
// of the spec, because selectors use them.
func meta(w Workload, name string, labels, annotations map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: w.Namespace, Labels: merged(labels, w.Labels), Annotations: maps.Clone(annotations),
	}
}

func selector(w Workload) metav1.LabelSelector {
	return metav1.LabelSelector{MatchLabels: PodLabels(w)}
}

// merged returns a new map with the entries of all sets. Later sets override earlier ones.
func merged(sets ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, set := range sets {
		maps.Copy(all, set)
	}
	return all
}

// metricsLabels returns the labels of the metrics Service. They distinguish it from the Service
// that serves Coder.
func metricsLabels(w Workload) map[string]string {
	return merged(w.Labels, map[string]string{coderv1alpha1.LabelComponent: coderv1alpha1.ComponentMetrics})
}
