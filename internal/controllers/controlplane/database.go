package controlplane

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controlplane/resources"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
	workloadresources "github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

// databaseMissing says that the spec gives coderd no database.
func (s *scope) databaseMissing() *workload.Problem {
	if resources.DatabaseConfigured(s.cp, s.inputs()) {
		return nil
	}
	return &workload.Problem{Reason: coderv1alpha1.ReasonDatabaseMissing,
		Message: "the spec names no database, and the one inside Coder does not run in a container: " +
			"set spec.database, or CODER_PG_CONNECTION_URL in spec.extraEnv (from a Secret), or bring it with spec.envFrom"}
}

// databaseSecretMissing says what is wrong with the Secret of spec.database.
func (s *scope) databaseSecretMissing(reference workloadresources.Reference, key string) *workload.Problem {
	secret, _ := resources.DatabaseSecret(s.cp)
	if secret == "" || reference.Kind != workloadresources.KindSecret || reference.Name != secret {
		return nil
	}
	what := fmt.Sprintf("Secret %q of spec.database", secret)
	remedy := "make it, or correct spec.database.secretRef"
	if cluster := s.cp.Spec.Database.CloudNativePG; cluster != nil {
		what = fmt.Sprintf("Secret %q of the CloudNativePG cluster %q in spec.database", secret, cluster.ClusterName)
		remedy = "CloudNativePG writes it once the cluster's database is there; make the Cluster in this namespace, or correct spec.database.cloudNativePG.clusterName"
	}
	if key != "" {
		return &workload.Problem{Reason: coderv1alpha1.ReasonDatabaseSecretMissing,
			Message: fmt.Sprintf("%s has no key %q with the address of the database; add it, or correct the key in the spec", what, key)}
	}
	return &workload.Problem{Reason: coderv1alpha1.ReasonDatabaseSecretMissing, Message: fmt.Sprintf("%s does not exist: %s", what, remedy)}
}

// databaseTrouble knows from Coder's own words whether it is not ready because of
// the database.
func databaseTrouble(_, words string) *workload.Problem {
	cause := databaseCause(words)
	if cause == "" {
		return nil
	}
	return &workload.Problem{Reason: coderv1alpha1.ReasonDatabaseUnreachable, Message: fmt.Sprintf(
		"Coder cannot use its database: %s; check the database, and the value of %s", workload.Clipped(cause), resources.EnvDatabase)}
}

// What coderd writes while it cannot use its database. It tries for half a
// minute, with a warning each time, and then ends with an error.
var (
	retryingLine = regexp.MustCompile(`(?:ping|connect to) postgres: retrying`)
	// fieldError is the field of that warning, in a log for people and in JSON.
	fieldError = regexp.MustCompile(`(?:error=|"error":\s*)("(?:[^"\\]|\\.)*"|\S+)`)
	endLine    = regexp.MustCompile(`unable to connect after \d+ tries; last error: (.*)`)
	badURLLine = regexp.MustCompile(`(?:escaping postgres URL|parse postgres url|invalid postgres url)`)
	failedLine = regexp.MustCompile(`connect to postgres: (?:connect to postgres: )?(.*)`)
)

// databaseCause is what coderd says is wrong with its database, or empty where it
// says nothing of that. The last word counts.
func databaseCause(text string) string {
	for _, line := range slices.Backward(workload.LogLines(text)) {
		switch {
		case retryingLine.MatchString(line):
			return stableCause(unquoted(firstGroup(fieldError, line)), "no connection")
		case badURLLine.MatchString(line):
			return "the address of the database is not a URL that Coder can read"
		case endLine.MatchString(line):
			return stableCause(firstGroup(endLine, line), "no connection")
		case strings.Contains(line, "error:") && failedLine.MatchString(line):
			return stableCause(firstGroup(failedLine, line), "no connection")
		}
	}
	return ""
}

// What changes from try to try of the same failure.
var (
	connectionEnds = regexp.MustCompile(`(read|write) (tcp|udp) \S+->(\S+):`)
	resolver       = regexp.MustCompile(`lookup (\S+) on \S+:`)
)

func stableCause(cause, unknown string) string {
	cause = connectionEnds.ReplaceAllString(cause, "$1 $2 $3:")
	cause = resolver.ReplaceAllString(cause, "lookup $1:")
	if cause = workload.OneLine(cause); cause == "" {
		return unknown
	}
	return cause
}

func firstGroup(pattern *regexp.Regexp, line string) string {
	groups := pattern.FindStringSubmatch(line)
	if len(groups) < 2 {
		return ""
	}
	return groups[1]
}

// unquoted takes the quotes off a logged value, and the backslashes that they
// made necessary.
func unquoted(value string) string {
	value = strings.TrimSuffix(strings.TrimPrefix(value, `"`), `"`)
	return strings.ReplaceAll(value, `\"`, `"`)
}
