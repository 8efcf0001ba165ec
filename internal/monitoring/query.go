package monitoring

import "strings"

// job is the label by which Prometheus tells what it scrapes from the operator from
// what it scrapes from others: the name of the Service.
const job = "coder-k8s-metrics"

// ours puts the choice of the operator's own series in place of JOB, in queries of
// metrics that controllers and API servers of others have too.
func ours(query string) string { return strings.ReplaceAll(query, "JOB", `job="`+job+`"`) }
