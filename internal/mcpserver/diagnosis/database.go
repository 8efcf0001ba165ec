package diagnosis

import (
	"regexp"
	"slices"
	"strings"
)

// databaseTrouble is what coderd says when it cannot use its database.
type databaseTrouble struct {
	signs *regexp.Regexp
	// what is wrong, and what to do. Both are parts of sentences.
	what, do string
}

// aboutDatabase are the lines of coderd's log that are about its database. Others
// may tell of connections to something else.
var aboutDatabase = regexp.MustCompile(`(?i)postgres|\bpq: |\bpsql|migrate up|migrations in database|acquire lock`)

// databaseTroubles are the words of PostgreSQL, of Coder's driver and of the
// network. The more particular stand first.
var databaseTroubles = []databaseTrouble{
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

// unusableDatabase says what the words of coderd tell about its database. The last
// line that does counts; where coderd ended with an error, that is the only one: it
// may have found its database after it had to try again, and end for another reason.
func unusableDatabase(words string) (trouble databaseTrouble, line string, found bool) {
	lines := strings.Split(words, "\n")
	isError := func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "error: ") }
	ended := slices.ContainsFunc(lines, isError)
	for _, line := range slices.Backward(lines) {
		if !aboutDatabase.MatchString(line) || ended && !isError(line) {
			continue
		}
		if trouble, known := databaseTroubleOf(line); known {
			return trouble, strings.TrimSpace(line), true
		}
	}
	return databaseTrouble{}, "", false
}

func databaseTroubleOf(line string) (databaseTrouble, bool) {
	// Coder's log escapes the quotes inside of what it quotes.
	line = strings.ReplaceAll(line, `\"`, `"`)
	for _, trouble := range databaseTroubles {
		if trouble.signs.MatchString(line) {
			return trouble, true
		}
	}
	return databaseTrouble{}, false
}
