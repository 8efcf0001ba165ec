// Command chart generates those parts of the Helm chart charts/coder-k8s that have another source:
//
//   - custom resource definitions, roles, bindings and the admission policies from config/, as
//     templates in templates/generated;
//   - values.yaml and docs/reference/helm-values.md from values.schema.json.
//
// Its argument is the root of the repository. It renders config/ with kustomize, so that overlays
// and patches apply. Deployments and Services are written by hand, because they depend on many
// values; test/chart compares them with the rendering of config/.
package main
