package takeover

import "encoding/json"

// plain converts content to JSON types only, which an unstructured object requires.
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
