package admission

const someVersion = "5b0d6c1e-6a0e-4f3c-9d2e-0f6f1c1f7a11"

var templateTestRules = []rule{
	{name: "tests owned by nobody", kinds: []string{controlPlane}, at: "spec.templateTests.ownerUsername", says: "must consist of letters, digits and single dashes",
		bad: "templateTests: {ownerUsername: 'a b'}", good: "templateTests: {ownerUsername: template-tester}"},
	{name: "no tests at once", kinds: []string{controlPlane}, at: "spec.templateTests.maxConcurrent", says: "should be greater than or equal to 1",
		bad: "templateTests: {ownerUsername: a, maxConcurrent: 0}", good: "templateTests: {ownerUsername: a, maxConcurrent: 1}"},
	{name: "a template without organization", kinds: []string{templateTest}, at: "spec.template", says: "must be <organization>.<template>",
		bad: "template: hello", good: "template: Coder.hello-2"},
	{name: "two versions", kinds: []string{templateTest}, at: "spec.version", says: "give exactly one",
		bad: "version: {active: true, name: v1}", good: "version: {name: v1}"},
	{name: "no version", kinds: []string{templateTest}, at: "spec.version", says: "give exactly one",
		bad: "version: {active: false}", good: "{}"},
	{name: "a version of no id", kinds: []string{templateTest}, at: "spec.version.id", says: "must be a UUID in lower case",
		bad: "version: {id: v1}", good: "version: {id: " + someVersion + "}"},
	{name: "a command without a name", kinds: []string{templateTest}, at: "spec.checks.commands[0].name", says: "must consist of lower case letters, digits and dashes",
		bad: "checks: {commands: [{name: 'A b', command: ['true']}]}", good: "checks: {commands: [{name: a-b, command: ['true']}]}"},
	{name: "no command", kinds: []string{templateTest}, at: "spec.checks.commands[0].command", says: "should have at least 1 items",
		bad: "checks: {commands: [{name: a, command: []}]}", good: "checks: {commands: [{name: a, command: ['true']}]}"},
	{name: "a command twice", kinds: []string{templateTest}, at: "spec.checks.commands[1]", says: "Duplicate value",
		bad:  "checks: {commands: [{name: a, command: ['true']}, {name: a, command: ['true']}]}",
		good: "checks: {commands: [{name: a, command: ['true']}, {name: b, command: ['true']}]}"},
}

var templateTestChanges = []transition{
	{name: "another template of a test", kinds: []string{templateTest}, at: "spec", says: "create another CoderTemplateTest",
		before: "{template: coder.hello}", bad: "{template: coder.other}", good: "{template: coder.hello, timeoutSeconds: 900}"},
}
