package diagnosis

import (
	"cmp"
	"slices"
)

// conclusion is a finding before the report is written.
type conclusion struct {
	Finding
	// symptom says that something else must have caused it, which may lie in a gap.
	symptom bool
	// fallback says that it is left out where an error was found.
	fallback bool
	// next are the calls of tools that tell more about it.
	next []Next
}

// rule concludes from facts of a kind. It changes nothing and knows no clock.
type rule[F any] func(facts F) []conclusion

// conclude lets all rules speak. Rules stand in the order in which one thing causes
// another, so within a severity what is found first explains what comes after it.
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

// apply is what the rules say, in their order.
func apply[F any](facts F, rules []rule[F]) []conclusion {
	var all []conclusion
	for _, look := range rules {
		all = append(all, look(facts)...)
	}
	return all
}

// isSymptom says of an error that another one explains it.
func (c conclusion) isSymptom() bool { return c.symptom && c.Severity == severityError }

func weight(severity string) int {
	return slices.Index([]string{severityError, severityWarning, severityInfo}, severity)
}

// nothing is what most rules conclude.
func nothing() []conclusion { return nil }

// one is the only conclusion of a rule.
func one(f Finding, next ...Next) []conclusion { return []conclusion{{Finding: f, next: next}} }

// aFallback is all that is known where no error was found.
func aFallback(f Finding, next ...Next) []conclusion {
	return []conclusion{{Finding: f, symptom: true, fallback: true, next: next}}
}

// aSymptom is a conclusion whose cause is not known from it.
func aSymptom(f Finding, next ...Next) []conclusion {
	return []conclusion{{Finding: f, symptom: true, next: next}}
}
