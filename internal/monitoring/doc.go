// Package monitoring says what is worth an alert, and what stands on the dashboard.
//
// It is the one place for both: config/monitoring and docs/reference/alerts.md are
// made of it by hack/monitoring.
//
// Invariants:
//   - A query names metrics of the operator alone, with labels that they have. Those
//     whose names others use too are chosen by the job, which is that of Service
//     coder-k8s-metrics.
//   - An alert has one cause that a person can do something about, and a runbook that
//     says what.
//   - The labels namespace and name are those of the object that a series is about,
//     as config/monitoring/servicemonitor.yaml keeps them (honorLabels).
package monitoring
