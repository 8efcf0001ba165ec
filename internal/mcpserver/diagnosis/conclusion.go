package diagnosis

import (
	"cmp"
	"slices"
)

// conclusion is a finding with the data that decides its place in the report.
type conclusion struct {
	Finding
	// symptom reports that the finding must have another cause, which may be in a gap.
	symptom bool
	// fallback reports that the finding is dropped if another error was found.
	fallback bool
	// next contains the tool calls that show more about the finding.
	next []Next
}

// rule derives conclusions from facts. It is a pure function: it has no side effects and
// does not read the clock.
type rule[F any] func(facts F) []conclusion

// conclude applies all rules and sorts the conclusions by severity. Rules are ordered from
// causes to effects, so within a severity an earlier finding explains later ones.
func conclude[F any](facts F, rules []rule[F]) []conclusion {
	all := apply(facts, rules)
	if slices.ContainsFunc(all, func(c conclusion) bool { return c.Severity == severityError && !c.fallback }) {
		all = slices.DeleteFunc(all, func(c conclusion) bool { return c.fallback })
	}
	slices.SortStableFunc(all, func(a, b conclusion) int {
		return cmp.Or(cmp.Compare(weight(a.Severity), weight(b.Severity)), cmp.Compare(rank(a.isSymptom()), rank(b.isSymptom())))
	})
	return all
}

// apply returns the conclusions of the rules, in the order of the rules.
func apply[F any](facts F, rules []rule[F]) []conclusion {
	var all []conclusion
	for _, look := range rules {
		all = append(all, look(facts)...)
	}
	return all
}

// isSymptom reports whether the conclusion is an error that another error explains.
func (c conclusion) isSymptom() bool { return c.symptom && c.Severity == severityError }

func weight(severity string) int {
	return slices.Index([]string{severityError, severityWarning, severityInfo}, severity)
}

// nothing is the result of a rule that does not apply.
func nothing() []conclusion { return nil }

// one returns a single conclusion.
func one(f Finding, next ...Next) []conclusion { return []conclusion{{Finding: f, next: next}} }

// aFallback returns a conclusion for the case that no other error was found.
func aFallback(f Finding, next ...Next) []conclusion {
	return []conclusion{{Finding: f, symptom: true, fallback: true, next: next}}
}

// aSymptom returns a conclusion that does not contain the cause.
func aSymptom(f Finding, next ...Next) []conclusion {
	return []conclusion{{Finding: f, symptom: true, next: next}}
}
