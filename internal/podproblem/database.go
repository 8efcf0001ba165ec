package podproblem

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// SeeDatabase is the advice if the error is unknown.
const SeeDatabase = "see the database and its address"

// Database is a database problem that coderd's log reports.
type Database struct {
	// Line is the line of the log.
	Line string
	// Cause is the error in it, without parts that change from attempt to attempt.
	Cause string
	// What describes the problem, and Do what to do. Both are parts of sentences.
	What, Do string
}

// aboutDatabase matches the lines of coderd's log about its database. Other lines may be about
// other connections.
var aboutDatabase = regexp.MustCompile(`(?i)postgres|\bpq: |\bpsql|migrate up|migrations in database|acquire lock`)

// knownDatabaseProblems match errors of PostgreSQL, of Coder's driver and of the network. The more
// specific ones come first.
var knownDatabaseProblems = []struct {
	signs    *regexp.Regexp
	what, do string
}{
	{regexp.MustCompile(`(?i)password authentication failed|no password supplied|SASL`),
		"the database refuses the user or the password", "correct user and password in the Secret with the address of the database"},
	{regexp.MustCompile(`(?i)no pg_hba\.conf entry`),
		"the rules of the database (pg_hba.conf) do not let Coder in", "allow the user, the database and the pods' network in pg_hba.conf; where it says no encryption, add sslmode=require to the address"},
	{regexp.MustCompile(`(?i)SSL is not enabled on the server`),
		"the database speaks no TLS, and the address asks for it", "add sslmode=disable to the address, or enable TLS in PostgreSQL"},
	{regexp.MustCompile(`(?i)x509|certificate|tls: `),
		"TLS with the database fails", "have Coder trust its certificate authority (spec.certs, sslrootcert), or correct sslmode in the address"},
	{regexp.MustCompile(`(?i)database "[^"]*" does not exist`),
		"the server has no database of that name", "make the database, or correct its name in the address"},
	{regexp.MustCompile(`(?i)role "[^"]*" does not exist`),
		"the server has no user of that name", "make the user, or correct it in the address"},
	{regexp.MustCompile(`(?i)too many clients|remaining connection slots`),
		"the database takes no more connections", "raise max_connections of PostgreSQL, or take connections away from others"},
	{regexp.MustCompile(`(?i)the database system is (starting up|shutting down|in recovery|not yet accepting)`),
		"the database is starting or ending", "see why PostgreSQL does not come up"},
	{regexp.MustCompile(`(?i)permission denied for`),
		"the user of the database may not do what Coder needs", "make the user the owner of the database"},
	{regexp.MustCompile(`(?i)no such host|server misbehaving|name or service not known`),
		"the name of the database server does not resolve", "correct the host in the address, or see whether the Service of the database exists"},
	{regexp.MustCompile(`(?i)connection refused`),
		"nothing listens at the address of the database (connection refused)", "see that PostgreSQL runs, and correct host and port in the address"},
	{regexp.MustCompile(`(?i)i/o timeout|context deadline exceeded|no route to host|network is unreachable|connection timed out`),
		"the database does not answer", "see that PostgreSQL runs, and that a NetworkPolicy or firewall lets Coder's pods reach it"},
	{regexp.MustCompile(`(?i)escaping postgres URL|parse postgres url|invalid postgres url|cannot parse`),
		"the address of the database is not one that Coder can read", "write it as postgres://user:password@host:port/name, with special characters escaped"},
	{regexp.MustCompile(`(?i)PostgreSQL version must be`),
		"PostgreSQL is too old for this Coder", "upgrade PostgreSQL to 13 or newer"},
	{regexp.MustCompile(`(?i)Dirty database version|migrate up|migrations in database`),
		"the schema of the database cannot be brought to this version of Coder", "go back to the version of Coder that wrote it, or restore the database; a newer Coder cannot be undone by an older one"},
}

// Lines of coderd's log while it cannot use its database. coderd retries for half a minute, logs a
// warning each time, and then exits with an error.
var (
	retryingLine = regexp.MustCompile(`(?:ping|connect to) postgres: retrying`)
	// fieldError matches the error field of that warning in text and JSON logs.
	fieldError = regexp.MustCompile(`(?:error=|"error":\s*)("(?:[^"\\]|\\.)*"|\S+)`)
	endLine    = regexp.MustCompile(`unable to connect after \d+ tries; last error: (.*)`)
	badURLLine = regexp.MustCompile(`(?:escaping postgres URL|parse postgres url|invalid postgres url)`)
	failedLine = regexp.MustCompile(`connect to postgres: (?:connect to postgres: )?(.*)`)
)

// FindDatabase returns the problem in the last line of coderd's log about its database, or nil. If
// coderd exited with an error, only that line counts: coderd may have reached its database after
// some attempts and exited for another reason.
func FindDatabase(log string) *Database {
	lines := strings.Split(terminalColour.ReplaceAllString(log, ""), "\n")
	isError := func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), errorPrefix) }
	ended := slices.ContainsFunc(lines, isError)
	for _, line := range slices.Backward(lines) {
		if ended && !isError(line) {
			continue
		}
		cause, what, do := causeIn(line), "", ""
		if aboutDatabase.MatchString(line) {
			what, do = DescribeDatabase(line)
		}
		if cause != "" || what != "" {
			cause = cmp.Or(cause, what)
			return &Database{strings.TrimSpace(line), cause, cmp.Or(what, cause), cmp.Or(do, SeeDatabase)}
		}
	}
	return nil
}

// DescribeDatabase returns the problem that an error about a database reports, and what to do. Both
// are empty if the error is unknown.
func DescribeDatabase(said string) (what, do string) {
	// Coder's log escapes quotes in quoted values.
	said = strings.ReplaceAll(said, `\"`, `"`)
	for _, known := range knownDatabaseProblems {
		if known.signs.MatchString(said) {
			return known.what, known.do
		}
	}
	return "", ""
}

// causeIn returns the error about coderd's database in a line, or an empty string.
func causeIn(line string) string {
	switch {
	case retryingLine.MatchString(line):
		return stableCause(unquoted(firstGroup(fieldError, line)))
	case badURLLine.MatchString(line):
		return "the address of the database is not a URL that Coder can read"
	case endLine.MatchString(line):
		return stableCause(firstGroup(endLine, line))
	case strings.Contains(line, "error:") && failedLine.MatchString(line):
		return stableCause(firstGroup(failedLine, line))
	}
	return ""
}

// Parts that change between attempts of the same failure.
var (
	connectionEnds = regexp.MustCompile(`(read|write) (tcp|udp) \S+->(\S+):`)
	resolver       = regexp.MustCompile(`lookup (\S+) on \S+:`)
)

func stableCause(cause string) string {
	cause = connectionEnds.ReplaceAllString(cause, "$1 $2 $3:")
	cause = resolver.ReplaceAllString(cause, "lookup $1:")
	return cmp.Or(redaction.OneLine(cause), "no connection")
}

func firstGroup(pattern *regexp.Regexp, line string) string {
	groups := pattern.FindStringSubmatch(line)
	if len(groups) < 2 {
		return ""
	}
	return groups[1]
}

// unquoted removes the quotes of a logged value, and the backslashes that escape quotes.
func unquoted(value string) string {
	value = strings.TrimSuffix(strings.TrimPrefix(value, `"`), `"`)
	return strings.ReplaceAll(value, `\"`, `"`)
}
