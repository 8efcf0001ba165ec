// Package tree owns kubectl coder tree: a control plane with all that belongs to it,
// down to the pods, and its workspaces with theirs.
//
// What belongs to an object is found by owner references, as the garbage collector
// finds it; templates by the control plane that they name, workspaces by their
// template, and the pods of a workspace by the label that templates of Coder set.
package tree
