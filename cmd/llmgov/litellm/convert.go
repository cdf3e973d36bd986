package litellm

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Options are the inputs of a conversion besides the file.
type Options struct {
	// Env answers for keys that are in variables.
	Env map[string]string
	// Include reads a file that the config includes.
	Include func(name string) ([]byte, error)
	// Prices are those of models whose price the config does not say.
	Prices Prices
	// NewKey makes a key for a tenant, and its hash.
	NewKey func(tenant string) (key, hash string)
}

// File is one file of llmgov.
type File struct{ Name, Text string }

// NewKey is a key that was made since the config holds none for the tenant.
type NewKey struct{ Tenant, Key string }

// Result is a converted config.
type Result struct {
	Files []File
	Notes []Note
	Keys  []NewKey
	// Secrets says that the config file holds keys as they are.
	Secrets bool
}

// converter gathers the parts of the config.
type converter struct {
	opt       Options
	source    string
	upstreams []upstream
	pools     []pool
	prices    map[string]price
	names     map[string]string   // model_name → the name that callers ask for, the same if possible
	reals     map[string]string   // the name that callers ask for → the upstream's
	logins    map[string]node     // credentials by name
	granting  map[string][]string // the other names that a name in a list of models grants, as groups of models do
	weighs    bool                // a note on the meaning of rpm and tpm was made
	slots     int64               // calls at once of a deployment that does not say
	timeout   time.Duration
	tierList  []tenant
	template  bool // the first tier is one for all
	tenants   []tenant
	gone      []string // the names in keys of teams that were left out
	whole     limits   // the budget of all tenants together
	unkept    *tree    // budgets in money that lack prices
	secrets   bool
}

// variable begins a value that is in the environment.
const variable = "os.environ/"

// ErrNothing says that no model can be served.
var ErrNothing = errors.New("no model in it has an upstream that llmgov supports, so there is nothing to import")

// ErrPrices says that budgets in money would be lost, which the notes list, because models have no price.
var ErrPrices = errors.New("budgets in dollars need the prices of all their models, and would be lost")

// Convert reads the config named source.
func Convert(source string, data []byte, opt Options) (*Result, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	if doc.Kind != yaml.DocumentNode || content(doc.Content[0]).Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s: is not a config of LiteLLM: it holds no mapping", source)
	}
	files := &tree{taken: map[*yaml.Node]bool{}, files: map[*yaml.Node]string{}}
	files.stand(doc.Content[0], source)
	root := node{tree: files, val: doc.Content[0]}
	if err := root.include(opt.Include); err != nil {
		return nil, err
	}
	c := &converter{
		opt: opt, source: source, prices: map[string]price{}, names: map[string]string{}, reals: map[string]string{},
		logins: map[string]node{}, granting: map[string][]string{}, unkept: &tree{files: files.files},
	}
	c.read(root)
	if len(c.pools) == 0 {
		return &Result{Notes: sorted(root.tree.notes)}, fmt.Errorf("%s: %w", source, ErrNothing)
	}
	keys := c.finish()
	made := c.files()
	if lost := sorted(c.unkept.notes); len(lost) > 0 {
		return &Result{Notes: lost}, fmt.Errorf("%s: %w", source, ErrPrices)
	}
	return &Result{Files: made, Notes: sorted(root.tree.notes), Keys: keys, Secrets: c.secrets}, nil
}

// read goes through the config. Models come first, since teams name them.
func (c *converter) read(root node) {
	list := root.get("model_list")
	settings := root.get("litellm_settings")
	general := root.get("general_settings")
	router := root.get("router_settings") // its keys are listed one by one
	c.slots = general.get("max_parallel_requests").amount()
	c.models(list, root.get("credential_list"))
	c.aliases(router.get("model_group_alias"))
	c.aliases(settings.get("model_group_alias"))
	if t := settings.get("request_timeout"); t.there() {
		if n := t.amount(); n > 0 && n <= 24*3600 {
			c.timeout = time.Duration(n) * time.Second
		}
	}
	c.tiers(settings)
	c.teams(settings.get("default_team_settings"))
	c.teams(root.get("teams"))
	c.keys(root.get("keys"))
	c.keys(root.get("virtual_keys"))
	c.wholeBudget(settings)
	c.master(general.get("master_key"))
	entries, keys := root.pairs()
	for i, n := range entries {
		if strings.HasPrefix(keys[i], "x-") { // a place for anchors, which nobody reads
			n.takeAll()
		}
	}
	root.rest()
}

// wholeBudget reads a budget of all together, which a pool can have and several cannot.
func (c *converter) wholeBudget(settings node) {
	all := settings.get("max_budget")
	if len(c.pools) > 1 && all.there() {
		_ = settings.get("budget_duration")
		all.lost("a budget over several pools has no counterpart; give each pool its own budgets")
		return
	}
	c.whole = c.limitsOf(settings)
}

// master makes a tenant for the master key, where there is no other.
func (c *converter) master(key node) {
	switch {
	case len(c.tenants) == 0:
		t := tenant{name: "default", at: key}
		c.keyOf(&t, key, "")
		if len(t.keys) > 0 {
			key.harmless("is the key of tenant default here, and opens no admin API")
		}
		c.tenants = append(c.tenants, t)
	case key.there():
		key.differs("has no counterpart: each caller needs a key of a tenant, and admin.token is for the admin side")
	}
}

// finish adds tiers and keys.
func (c *converter) finish() (keys []NewKey) {
	known := map[string]bool{}
	for _, t := range c.tierList {
		known[t.name] = true
	}
	for i := range c.tenants {
		t := &c.tenants[i]
		if t.tier != "" && !known[t.tier] {
			t.at.lost("has priority %q, which priority_reservation does not name", t.tier)
			t.tier = ""
		}
		if all := slices.IndexFunc(c.tierList, func(o tenant) bool { return o.name == everyone }); c.template && all >= 0 {
			if t.tier == "" {
				t.tier = everyone
			} else { // a tenant has one tier, so the keys of all are written out
				t.limits = t.limits.over(c.tierList[all].limits)
			}
		}
		keys = c.fillKeys(t, t.name, keys)
		for j := range t.teams {
			keys = c.fillKeys(&t.teams[j], t.name+"/"+t.teams[j].name, keys)
		}
	}
	return keys
}

// fillKeys makes a key for who has none, and no teams, and adds it to made.
func (c *converter) fillKeys(t *tenant, name string, made []NewKey) []NewKey {
	slices.Sort(t.keys)
	t.keys = slices.Compact(t.keys)
	if len(t.keys)+len(t.teams) > 0 {
		return made
	}
	key, hash := c.opt.NewKey(name)
	t.keys = []string{quote(hash)}
	return append(made, NewKey{name, key})
}

// value is a text as a file of llmgov holds it: a variable, or the text with its dollar signs doubled.
func (c *converter) value(n node) string {
	if name, ok := strings.CutPrefix(n.text(), variable); ok {
		return "${" + name + "}"
	}
	return strings.ReplaceAll(n.text(), "$", "$$")
}

func sorted(notes []Note) []Note {
	slices.SortStableFunc(notes, func(a, b Note) int {
		return cmp.Or(cmp.Compare(a.Weight, b.Weight), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	return slices.Compact(notes)
}
