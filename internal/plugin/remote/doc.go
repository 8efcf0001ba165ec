// Package remote owns the commands that act inside a workspace: kubectl coder exec,
// ssh, config-ssh, cp and port-forward, and starts a workspace for them.
//
// They use the subresources exec and portforward of coderworkspaces with client-go's
// clients of pods/exec and pods/portforward. kube-apiserver authenticates, authorizes
// and audits them. This machine needs no Coder client and no token of Coder.
package remote
