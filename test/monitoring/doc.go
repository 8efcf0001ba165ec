// Package monitoring has the tests of the alerts and the dashboard in config/monitoring:
// promtool says when an alert fires, a Prometheus says whether the queries can be read and
// of what they are made, and against the real cluster (build tag e2e) one that scrapes the
// operator says what they give.
//
// The tests are left out where $TOOLS_DIR has no promtool and prometheus:
// hack/monitoring/build.sh builds them.
package monitoring
