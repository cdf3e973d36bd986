package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// WriteJSON writes the result as one object: the scenario, the figures over all
// seeds, those of each tenant, and those of each seed.
func WriteJSON(out io.Writer, r Result) error {
	parts := []any{
		struct {
			Name    string   `json:"name"`
			Seconds float64  `json:"duration_seconds"`
			Warmup  float64  `json:"warmup_seconds"`
			Seeds   []uint64 `json:"seeds"`
		}{r.Scenario.Name, r.Scenario.Duration.Seconds(), r.Scenario.Warmup.Seconds(), r.Seeds},
		r.Figures,
		struct {
			Tenants   []TenantFigures   `json:"tenants"`
			PerSeed   []Figures         `json:"per_seed"`
			Baselines []BaselineFigures `json:"baselines,omitempty"`
		}{r.Tenants, r.PerSeed, r.Baselines},
	}
	one := []byte{'{'}
	for i, part := range parts {
		object, err := json.Marshal(part)
		if err != nil {
			return fmt.Errorf("simulate: %w", err)
		}
		if i > 0 {
			one = append(one, ',')
		}
		one = append(one, object[1:len(object)-1]...) // without its braces
	}
	one = append(one, '}')
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, one, "", "  "); err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	pretty.WriteByte('\n')
	if _, err := out.Write(pretty.Bytes()); err != nil {
		return fmt.Errorf("simulate: writing JSON: %w", err)
	}
	return nil
}
