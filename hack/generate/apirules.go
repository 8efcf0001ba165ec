package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// expression matches a CEL rule. Its message follows the expression.
var expression = regexp.MustCompile(`^\{.*[)\]'] (must .*?) +<nil>\}$`)

// rules returns the default and the validation of a field as text. Fields of the status are not
// marked as required.
func (f field) rules(written bool) (string, error) {
	var words []string
	if written && !f.optional() && f.Name != "apiVersion" && f.Name != "kind" {
		words = append(words, "Required.")
	}
	if initial := strings.TrimSpace(f.Default); written && strings.Trim(initial, "{} ") != "" && !strings.Contains(f.Doc, "Defaults to") {
		words = append(words, "Default: `"+initial+"`.")
	}
	for _, rule := range f.Validation {
		said, err := inWords(rule)
		if err != nil {
			return "", err
		}
		if said != "" {
			words = append(words, said)
		}
	}
	return strings.Join(words, " "), nil
}

func (f field) optional() bool {
	return slices.ContainsFunc(f.Validation, func(rule string) bool { return strings.HasPrefix(rule, "Optional:") })
}

// inWords returns one rule as text. It returns an empty string for a rule that is not relevant to
// readers.
func inWords(rule string) (string, error) {
	name, value, _ := strings.Cut(rule, ": ")
	each, ofEntries := strings.CutPrefix(name, "items:")
	switch {
	case each == "XValidation":
		message := expression.FindStringSubmatch(value)
		if message == nil {
			return "", fmt.Errorf("the rule %q has no message that begins with \"must\"", rule)
		}
		if ofEntries {
			return "Each " + message[1] + ".", nil
		}
		return "It " + message[1] + ".", nil
	case ofEntries:
		return "", nil
	}
	switch name {
	case "Optional", "XIntOrString", "Schemaless", "XPreserveUnknownFields", "Type", "Format":
		return "", nil
	case "Enum":
		return "One of `" + strings.Join(strings.Fields(strings.Trim(value, "[]")), "`, `") + "`.", nil
	case "MinLength", "MinItems":
		if value == "1" {
			return "Not empty.", nil
		}
		return "At least " + value + unitOf(name) + ".", nil
	case "MaxLength", "MaxItems", "MaxProperties":
		return "At most " + value + unitOf(name) + ".", nil
	case "Minimum":
		return "At least " + value + ".", nil
	case "Maximum":
		return "At most " + value + ".", nil
	case "Pattern":
		return "It matches `" + strings.Trim(value, "`") + "`.", nil
	}
	return "", fmt.Errorf("the rule %q has no words yet: add them to hack/generate/apirules.go", rule)
}

func unitOf(rule string) string {
	if strings.HasSuffix(rule, "Length") {
		return " characters"
	}
	return " entries"
}
