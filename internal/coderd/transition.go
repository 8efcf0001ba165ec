package coderd

// Transition is what a build does to a workspace.
type Transition string

// The transitions of a workspace.
const (
	TransitionStart  Transition = "start"
	TransitionStop   Transition = "stop"
	TransitionDelete Transition = "delete"
)
