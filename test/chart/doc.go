// Package chart tests the Helm chart charts/coder-k8s by rendering it with the real
// helm:
//
//   - with the values that correspond to an overlay of config/ it renders the objects of that overlay;
//   - for a table of values, what they change is in a golden file;
//   - every value of the schema changes something;
//   - invalid values are rejected with an error message that explains why.
//
// hack/helm/cluster-test.sh installs it on a real cluster.
package chart
