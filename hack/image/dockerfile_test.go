package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDockerfileMakesTheSameImage compares the image settings in the Dockerfile with those in
// build.sh. This needs no container engine.
func TestDockerfileMakesTheSameImage(t *testing.T) {
	dockerfile, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("build.sh")
	if err != nil {
		t.Fatal(err)
	}
	for instruction, flag := range map[string]string{"ENTRYPOINT": "-entrypoint", "USER": "-user", "WORKDIR": "-workdir"} {
		// The instruction of the last stage applies to the image.
		said := regexp.MustCompile(`(?m)^`+instruction+` (.*)$`).FindAllStringSubmatch(string(dockerfile), -1)
		given := regexp.MustCompile(flag + ` (\S+)`).FindStringSubmatch(string(script))
		if len(said) == 0 || given == nil {
			t.Errorf("%s or %s is missing", instruction, flag)
			continue
		}
		if last := strings.Trim(said[len(said)-1][1], `[]"`); last != given[1] {
			t.Errorf("the Dockerfile says %s %s, build.sh %s", instruction, last, given[1])
		}
	}
}
