package takeover

import "encoding/json"

// plain is content with the types of JSON alone, which an unstructured object needs.
func plain(content map[string]any) map[string]any {
	raw, err := json.Marshal(content)
	if err != nil {
		return content
	}
	clean := map[string]any{}
	if err := json.Unmarshal(raw, &clean); err != nil {
		return content
	}
	return clean
}
