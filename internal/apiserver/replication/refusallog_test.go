package replication

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	testingclock "k8s.io/utils/clock/testing"
)

func TestRefusalsAreToldOnceASecond(t *testing.T) {
	var said []string
	now := testingclock.NewFakePassiveClock(time.Unix(1000, 0))
	l := &refusalLog{clock: now, Logger: funcr.New(func(_, args string) { said = append(said, args) }, funcr.Options{})}
	for i := range 5 {
		fmt.Fprintf(l, "no %d\n", i)
	}
	now.SetTime(time.Unix(1001, 0))
	fmt.Fprintln(l, "no 5")
	want := []string{
		`"level"=0 "msg"="Refusing a connection" "reason"="no 0" "moreBefore"=0`,
		`"level"=0 "msg"="Refusing a connection" "reason"="no 5" "moreBefore"=4`,
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
