package podproblem

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

func TestRemedy(t *testing.T) {
	for want, p := range map[string]Problem{
		"correct the name or the tag in the image in the spec": {Kind: ImagePull, Message: "manifest unknown"},
		"create the Secret, ConfigMap or key":                  {Kind: Config},
		"PersistentVolumeClaim exists and is bound":            {Kind: Unschedulable, Message: `PersistentVolumeClaim "data" not found`},
		"lower the requests in the spec":                       {Kind: Unschedulable, Message: "3 Insufficient cpu"},
		"check which nodes fit":                                {Kind: Unschedulable, Message: "node(s) had untolerated taint"},
		"the volumes in the spec":                              {Kind: Volume},
		"network plugin":                                       {Kind: Sandbox},
		"raise the memory limit in the spec":                   {Kind: OutOfMemory, ExitCode: 137},
		"raise the requests in the spec":                       {Kind: Evicted},
		"raise the ResourceQuota":                              {Kind: Refused, Message: "exceeded quota: q"},
		"correct the security context in the spec":             {Kind: Refused, Message: `violates PodSecurity "restricted"`},
		"within the LimitRange":                                {Kind: Refused, Message: "maximum cpu usage per Container is 1"},
		"correct the spec, or what the message names":          {Kind: Refused, Message: "denied by a webhook"},
		"correct the command in the spec":                      {Kind: Crash, ExitCode: 127},
		"fix what its last log lines report, in the spec":      {Kind: Crash, ExitCode: 1},
	} {
		if got := p.Remedy("the spec"); !strings.Contains(got, want) {
			t.Errorf("%+v: %q, want %q", p, got, want)
		}
	}
}

func TestPodsThatAReplicaSetCannotCreate(t *testing.T) {
	set := &appsv1.ReplicaSet{}
	if p := FindRefusedBySet(set); p != nil {
		t.Errorf("%+v", p)
	}
	set.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: "exceeded quota"}}
	if p := FindRefusedBySet(set); p == nil || p.Kind != Refused || p.Reason != "FailedCreate" || p.Message != "exceeded quota" {
		t.Errorf("%+v", p)
	}
}
