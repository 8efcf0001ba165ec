package tools

// What several tools take. They have it from here, so that it has one name and one
// meaning everywhere.

// objectInput names one object.
type objectInput struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// listInput asks for a page of what is in a namespace, or in all.
type listInput struct {
	Namespace string `json:"namespace,omitempty"`
	Limit     int    `json:"limit,omitempty"`
	Cursor    string `json:"cursor,omitempty"`
}
