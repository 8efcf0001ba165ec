// Package remote implements the commands that act inside a workspace: kubectl coder exec, ssh,
// config-ssh, cp and port-forward. It also starts a workspace for them.
//
// The commands use the subresources exec and portforward of coderworkspaces with client-go's
// clients for pods/exec and pods/portforward. kube-apiserver authenticates, authorizes and audits
// them. The user's machine needs neither a Coder client nor a Coder token.
package remote
