package podproblem

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// Database is a database problem that coderd's log reports.
type Database struct {
	Line string
	// Cause is the error in it, without parts that change from attempt to attempt.
	Cause string
	// What describes the problem, and Do what to do. Both are parts of sentences.
	What, Do string
	// Newer is the version of the schema if a newer Coder has migrated the database.
	Newer string
}

// newerSchema matches the line of the last error of a coderd that is older than the schema. The error
// may have more than one line.
var newerSchema = regexp.MustCompile(`no migration found for version (\d+)`)

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
		"the database refuses the user or the password", "correct the user and the password in the Secret with the connection URL"},
	{regexp.MustCompile(`(?i)no pg_hba\.conf entry`),
		"the database rejects Coder's connection (pg_hba.conf)", "allow the user, the database and the pods' network in pg_hba.conf; if the message says no encryption, add sslmode=require to the connection URL"},
	{regexp.MustCompile(`(?i)SSL is not enabled on the server`),
		"the database does not support TLS, but the connection URL requires it", "add sslmode=disable to the connection URL, or enable TLS in PostgreSQL"},
	{regexp.MustCompile(`(?i)x509|certificate|tls: `),
		"the TLS connection to the database fails", "have Coder trust its certificate authority (spec.certs, sslrootcert), or correct sslmode in the connection URL"},
	{regexp.MustCompile(`(?i)database "[^"]*" does not exist`),
		"the server has no database of that name", "create the database, or correct its name in the connection URL"},
	{regexp.MustCompile(`(?i)role "[^"]*" does not exist`),
		"the server has no user of that name", "create the user, or correct it in the connection URL"},
	{regexp.MustCompile(`(?i)too many clients|remaining connection slots`),
		"the database accepts no more connections", "raise max_connections of PostgreSQL, or reduce the connections of other clients"},
	{regexp.MustCompile(`(?i)the database system is (starting up|shutting down|in recovery|not yet accepting)`),
		"the database is starting or shutting down", "check why PostgreSQL does not start"},
	{regexp.MustCompile(`(?i)permission denied for`),
		"the user of the database lacks permissions that Coder needs", "make the user the owner of the database"},
	{regexp.MustCompile(`(?i)no such host|server misbehaving|name or service not known`),
		"the name of the database server does not resolve", "correct the host in the connection URL, or check whether the Service of the database exists"},
	{regexp.MustCompile(`(?i)connection refused`),
		"no server listens at the host and port of the database (connection refused)", "check that PostgreSQL runs, and correct host and port in the connection URL"},
	{regexp.MustCompile(`(?i)i/o timeout|context deadline exceeded|no route to host|network is unreachable|connection timed out`),
		"the database does not respond", "check that PostgreSQL runs, and that NetworkPolicies and firewalls allow connections from Coder's pods"},
	{regexp.MustCompile(`(?i)escaping postgres URL|parse postgres url|invalid postgres url|cannot parse`),
		"Coder cannot parse the connection URL of the database", "write it as postgres://user:password@host:port/name, with special characters escaped"},
	{regexp.MustCompile(`(?i)PostgreSQL version must be`),
		"PostgreSQL is too old for this Coder", "upgrade PostgreSQL to 13 or newer"},
	{regexp.MustCompile(`(?i)Dirty database version|migrate up|migrations in database`),
		"the database schema cannot be migrated to this version of Coder", "go back to the version of Coder that wrote the schema, or restore the database; an older Coder cannot downgrade the schema"},
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
		if schema := firstGroup(newerSchema, line); ended && schema != "" {
			return &Database{
				Line: strings.TrimSpace(line), Cause: "no migration found for version " + schema, Newer: schema,
				What: "a newer Coder has migrated the database (migration " + schema + "), and Coder cannot migrate it back",
				Do:   "set the image to the version of that Coder or a newer one, or restore a backup of the database",
			}
		}
		if ended && !isError(line) {
			continue
		}
		cause, what, do := causeIn(line), "", ""
		if aboutDatabase.MatchString(line) {
			what, do = describeDatabase(line)
		}
		if cause != "" || what != "" {
			cause = cmp.Or(cause, what)
			return &Database{Line: strings.TrimSpace(line), Cause: cause, What: cmp.Or(what, cause), Do: cmp.Or(do, "check the database and its connection URL")}
		}
	}
	return nil
}

// describeDatabase returns the problem that an error about a database reports, and what to do. Both
// are empty if the error is unknown.
func describeDatabase(said string) (what, do string) {
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
		value := strings.TrimSuffix(strings.TrimPrefix(firstGroup(fieldError, line), `"`), `"`)
		return stableCause(strings.ReplaceAll(value, `\"`, `"`))
	case badURLLine.MatchString(line):
		return "Coder cannot parse the connection URL of the database"
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

var (
	terminalColour = regexp.MustCompile(`\x1b\[[0-9;]*m`)
	timestamp      = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:\.\d+)?Z?\s+`)
)

// LogLines returns the non-empty lines of a log without colours and timestamps.
func LogLines(text string) []string {
	var lines []string
	for line := range strings.Lines(terminalColour.ReplaceAllString(text, "")) {
		if line = strings.TrimSpace(timestamp.ReplaceAllString(line, "")); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// LastLine returns the line in which a process reports why it exited: its last error, or the last
// line of its output.
func LastLine(text string) string {
	lines := LogLines(text)
	for _, line := range slices.Backward(lines) {
		if rest, found := strings.CutPrefix(line, errorPrefix); found {
			return rest
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return lines[len(lines)-1]
}

// errorPrefix is the prefix of the line with which Coder's command-line programs report an error.
const errorPrefix = "error: "
