package tools

import "github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"

func addObservation(s *toolset.Set) {
	addGetEvents(s)
	addGetPodLogs(s)
	addCheckHealth(s)
}
