// Package monitoring has the tests of the alerts and the dashboard of the chart:
// promtool checks when an alert fires, a Prometheus parses the queries, and on the real
// cluster (build tag e2e) a Prometheus that scrapes the operator runs them.
//
// The tests are skipped if $TOOLS_DIR has no promtool and prometheus:
// test/monitoring/build.sh builds them.
package monitoring
