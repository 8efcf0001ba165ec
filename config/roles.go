package config

import "embed"

// Roles are the generated roles, by the path of their files below config.
//
//go:embed rbac/controller/role.yaml rbac/apiserver/role.yaml rbac/mcp/role.yaml
var Roles embed.FS
