// Package tree implements kubectl coder tree: a control plane with all dependent objects down to
// the pods, and its workspaces with their pods.
//
// Dependent objects are found by owner references, as the garbage collector does. Templates are
// found by the label of their control plane, workspaces by their template, and the pods of a
// workspace by the label that Coder's templates set.
package tree
