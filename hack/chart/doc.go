// Command chart generates what the Helm chart charts/coder-k8s has from elsewhere,
// so that nothing is written twice:
//
//   - custom resource definitions, roles, bindings and the admission policy from
//     config/, as templates below templates/generated;
//   - values.yaml and docs/reference/helm-values.md from values.schema.json.
//
// It takes one argument, the root of the repository. What config/ renders is asked
// of kustomize itself, so that overlays and patches count. Deployments and Services
// are written by hand, because they are made of values; test/chart compares them
// with what config/ renders.
package main
