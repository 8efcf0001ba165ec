package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/coder-k8s/coder-k8s/internal/monitoring"
)

// The grid of Grafana is 24 columns wide.
const (
	gridColumns  = 24
	panelHeight  = 8
	panelColumns = 8
	numberWidth  = 4
)

// datasource is the Prometheus that a person chooses at the top of the dashboard.
const datasource = "${datasource}"

// The types below are the parts of Grafana's dashboard format that are used here.
type (
	grafanaDashboard struct {
		UID           string         `json:"uid"`
		Title         string         `json:"title"`
		Description   string         `json:"description"`
		Tags          []string       `json:"tags"`
		Timezone      string         `json:"timezone"`
		SchemaVersion int            `json:"schemaVersion"`
		Version       int            `json:"version"`
		Editable      bool           `json:"editable"`
		Refresh       string         `json:"refresh"`
		Time          grafanaTime    `json:"time"`
		Templating    grafanaList    `json:"templating"`
		Panels        []grafanaPanel `json:"panels"`
	}
	grafanaTime struct {
		From string `json:"from"`
		To   string `json:"to"`
	}
	grafanaList struct {
		List []grafanaVariable `json:"list"`
	}
	grafanaVariable struct {
		Name  string `json:"name"`
		Label string `json:"label"`
		Type  string `json:"type"`
		Query string `json:"query"`
	}
	grafanaPanel struct {
		ID          int                 `json:"id"`
		Type        string              `json:"type"`
		Title       string              `json:"title"`
		Description string              `json:"description,omitempty"`
		GridPos     grafanaPosition     `json:"gridPos"`
		Datasource  *grafanaDatasource  `json:"datasource,omitempty"`
		Targets     []grafanaTarget     `json:"targets,omitempty"`
		FieldConfig *grafanaFieldConfig `json:"fieldConfig,omitempty"`
	}
	grafanaPosition struct {
		X int `json:"x"`
		Y int `json:"y"`
		W int `json:"w"`
		H int `json:"h"`
	}
	grafanaDatasource struct {
		Type string `json:"type"`
		UID  string `json:"uid"`
	}
	grafanaTarget struct {
		RefID        string `json:"refId"`
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat,omitempty"`
		Format       string `json:"format,omitempty"`
		Instant      bool   `json:"instant,omitempty"`
		Range        bool   `json:"range,omitempty"`
	}
	grafanaFieldConfig struct {
		Defaults  grafanaDefaults `json:"defaults"`
		Overrides []any           `json:"overrides"`
	}
	grafanaDefaults struct {
		Unit string `json:"unit"`
		Min  *int   `json:"min,omitempty"`
	}
)

// dashboard is what Grafana imports.
func dashboard(rows []monitoring.Row) ([]byte, error) {
	d := grafanaDashboard{
		UID: "coder-k8s", Title: "Coder on Kubernetes",
		Description: "The operator coder-k8s: control planes, calls to Coder, the aggregated API, the MCP server. Generated from internal/monitoring.",
		Tags:        []string{"coder", "coder-k8s"}, Timezone: "browser", SchemaVersion: 39, Version: 1,
		Refresh: "30s", Time: grafanaTime{From: "now-3h", To: "now"},
		Templating: grafanaList{List: []grafanaVariable{{Name: "datasource", Label: "Prometheus", Type: "datasource", Query: "prometheus"}}},
	}
	y, id := 0, 1
	for _, row := range rows {
		d.Panels = append(d.Panels, grafanaPanel{ID: id, Type: "row", Title: row.Title, GridPos: grafanaPosition{Y: y, W: gridColumns, H: 1}})
		y, id = y+1, id+1
		x := 0
		for _, panel := range row.Panels {
			width := panelColumns
			if panel.Kind == monitoring.Number {
				width = numberWidth
			}
			if x+width > gridColumns {
				x, y = 0, y+panelHeight
			}
			d.Panels = append(d.Panels, grafana(panel, id, grafanaPosition{X: x, Y: y, W: width, H: panelHeight}))
			x, id = x+width, id+1
		}
		y += panelHeight
	}
	return encode(d)
}

func grafana(panel monitoring.Panel, id int, at grafanaPosition) grafanaPanel {
	out := grafanaPanel{
		ID: id, Type: string(panel.Kind), Title: panel.Title, Description: panel.Description, GridPos: at,
		Datasource:  &grafanaDatasource{Type: "prometheus", UID: datasource},
		FieldConfig: &grafanaFieldConfig{Defaults: grafanaDefaults{Unit: string(panel.Unit)}, Overrides: []any{}},
	}
	if panel.Kind == monitoring.Graph {
		zero := 0
		out.FieldConfig.Defaults.Min = &zero
	}
	for i, query := range panel.Queries {
		target := grafanaTarget{RefID: fmt.Sprintf("%c", 'A'+i), Expr: query.Expr, LegendFormat: query.Legend}
		switch panel.Kind {
		case monitoring.Graph:
			target.Range = true
		case monitoring.Table:
			target.Format, target.Instant = "table", true
		default:
			target.Instant = true
		}
		out.Targets = append(out.Targets, target)
	}
	return out
}

// encode writes JSON that people can compare, with the signs of PromQL as they are.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
