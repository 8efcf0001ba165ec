package charts

import "embed"

// Roles are the generated roles, by the path of their files below charts.
//
//go:embed coder-k8s/files/roles/controller.yaml coder-k8s/files/roles/apiserver.yaml coder-k8s/files/roles/mcp.yaml
var Roles embed.FS
