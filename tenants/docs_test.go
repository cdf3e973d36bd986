package tenants

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
	"github.com/llmgov/llmgov/internal/test/testkit/doctable"
)

// TestDocs_Tables: the tables of keys on docs/configuration.md are those by which files are read.
func TestDocs_Tables(t *testing.T) {
	pool := DefaultPool("")
	tier := newDraft(nil)
	onlyOfTiers := shape[draft]{Fields: slices.DeleteFunc(slices.Clone(tierShape.Fields), func(f field[draft]) bool { return f.Name != "group" })}
	for of, rows := range map[string][]string{
		"llmgov.yaml":          rowsOf(configShape, &configFile{}),
		"an upstream":          rowsOf(upstreamShape, &Upstream{Kind: OpenAI}),
		"a pool":               rowsOf(poolShape, &pool),
		"an upstream's engine": rowsOf(engineShape, &Engine{KVCachePPM: defaultKVCachePPM}),
		"a pool's concurrency": rowsOf(concurrencyShape, nil),
		"a pool's upstream":    rowsOf(poolUpstreamShape, &PoolUpstream{}),
		"an issuer":            rowsOf(issuerShape, nil),
		"a webhook":            rowsOf(webhookShape, nil),
		"a role":               rowsOf(adminRoleShape, nil),
		"a price":              rowsOf(priceShape, nil),
		"a tier or tenant":     append(rowsOf(tenantShape, &tier), rowsOf(onlyOfTiers, &tier)...),
		"a limit":              rowsOf(windowShape, nil),
		"a budget":             rowsOf(budgetShape, nil),
		"a key":                rowsOf(keyShape, nil),
	} {
		doctable.Check(t, "../docs/configuration.md", "<!-- keys of "+of+": made by tenants -->\n",
			"| key | value | default | meaning |\n|---|---|---|---|\n"+strings.Join(rows, ""))
	}
}

// ownTable are the keys whose mappings have a table of their own.
var ownTable = []string{"concurrency", "engine", "price"}

// rowsOf are the lines of a table of a shape's keys, in the order in which they are declared.
func rowsOf[T any](s shape[T], start *T) (rows []string) {
	whole := strictyaml.WithoutVariables(s.Schema(start)).(schema)
	if s.Short != "" { // its mapping is the last of its forms
		forms := whole["anyOf"].([]any)
		whole = forms[len(forms)-1].(schema)
	}
	for _, f := range s.Fields {
		if f.Kind != nil {
			rows = append(rows, rowsOfKey(whole, "", f.Name)...)
		}
	}
	return rows
}

// rowsOfKey is the line of a key of a mapping, and those of the keys of a mapping below it, by name.
func rowsOfKey(of schema, prefix, name string) []string {
	s := of["properties"].(schema)[name].(schema)
	forms := []schema{s}
	if several, ok := s["anyOf"].([]any); ok {
		forms = nil
		for _, form := range several {
			forms = append(forms, form.(schema))
		}
	}
	start := ""
	if val, ok := s["default"]; ok {
		start = spelled(val, forms)
	}
	if required, _ := of["required"].([]any); slices.Contains(required, any(name)) {
		start = "required"
	}
	key := prefix + name
	var values, inner []string
	for _, form := range forms {
		values = append(values, valueOf(form, forms))
		keys, isMapping := form["properties"].(schema)
		if !isMapping || slices.Contains(ownTable, key) {
			continue
		}
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			inner = append(inner, rowsOfKey(form, key+".", k)...)
		}
	}
	values = slices.DeleteFunc(values, func(v string) bool { return v == "" })
	about, _ := s["description"].(string)
	about = strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(about)
	return append([]string{fmt.Sprintf("| `%s` | %s | %s | %s |\n", key, strings.Join(values, ", or "), start, about)}, inner...)
}

// valueOf says what a form of a value is; nothing, if another form of it says so.
func valueOf(s schema, forms []schema) string {
	size := slices.ContainsFunc(forms, isSize)
	if list := s["enum"]; list != nil {
		words := strings.Fields(strings.Trim(fmt.Sprint(list), "[]"))
		return "`" + strings.Join(words, "`, `") + "`"
	}
	switch s["type"] {
	case "boolean":
		return "`true`, `false`"
	case "integer", "number":
		bounds := fmt.Sprintf("%v to %v", spelled(s["minimum"], forms), spelled(s["maximum"], forms))
		if s["maximum"] == int64(maxAmount) {
			bounds = fmt.Sprintf("%v or more", s["minimum"])
		}
		return strings.ReplaceAll(bounds, "`", "")
	case "array":
		if of := s["items"].(schema); of["enum"] != nil {
			return "list of " + valueOf(of, nil)
		}
		return "list"
	case "object":
		if s["properties"] == nil {
			return "mapping by name"
		}
		return "mapping"
	}
	examples, _ := s["examples"].([]any)
	switch {
	case isSize(s) && size:
		return ""
	case slices.Contains(examples, any("500ms")):
		return "time"
	}
	return "text"
}

// isSize reports whether a form of a value is a number of bytes with its unit.
func isSize(s schema) bool {
	pattern, _ := s["pattern"].(string)
	return strings.Contains(pattern, "KiB")
}

// spelled is a value as a file has it, or nothing if it is empty.
func spelled(val any, forms []schema) string {
	if n, ok := val.(int); ok {
		val = int64(n)
	}
	if n, ok := val.(int64); ok && slices.ContainsFunc(forms, isSize) {
		unit := 0
		for n >= 1<<10 && n%(1<<10) == 0 && unit < 3 {
			n >>= 10
			unit++
		}
		return "`" + strconv.FormatInt(n, 10) + []string{"", "KiB", "MiB", "GiB"}[unit] + "`"
	}
	if val == "" {
		return ""
	}
	if text, ok := val.(string); ok {
		return "`" + text + "`"
	}
	text, err := json.Marshal(val)
	if err != nil {
		return err.Error()
	}
	return "`" + strings.ReplaceAll(string(text), ",", ", ") + "`"
}
