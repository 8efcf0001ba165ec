package coderd

// Transition is the effect of a build on a workspace.
type Transition string

// The transitions of a workspace.
const (
	TransitionStart  Transition = "start"
	TransitionStop   Transition = "stop"
	TransitionDelete Transition = "delete"
)
