// Package chart tests the Helm chart charts/coder-k8s as a release, by rendering it with the real helm:
//
//   - every value of the schema changes something, and the arguments of the program are in a golden file for a table of
//     values;
//   - every binding binds an account of the release, and what hooks may do is in a golden file;
//   - invalid values are rejected with an error message that explains why.
//
// test/manifests tests what kubectl applies, which is rendered from the same templates. test/chart/cluster-test.sh installs
// the chart on a real cluster.
package chart
