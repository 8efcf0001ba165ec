package tools

// Arguments that several tools share. They are defined here so that each has the same name
// and meaning in all tools.

// objectInput identifies one object.
type objectInput struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// listInput requests one page of the objects in a namespace, or in all namespaces.
type listInput struct {
	Namespace string `json:"namespace,omitempty"`
	Limit     int    `json:"limit,omitempty"`
	Cursor    string `json:"cursor,omitempty"`
}
