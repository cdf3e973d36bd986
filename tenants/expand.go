package tenants

import (
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// preparer makes a parsed tree plain: it reports YAML that is not supported and expands ${…} in scalar values.
type preparer struct {
	r   *report
	doc *document
	// env holds the variables of ${…}. If it is nil, ${…} is refused.
	env map[string]string
}

// prepare visits n and everything below it. It never follows an alias, so a bomb of aliases is no larger than its text.
func (p *preparer) prepare(n *yaml.Node) {
	at := p.doc.place(n)
	if n.Kind == yaml.AliasNode {
		p.r.add(at, "alias *%s is not supported; write the value out", n.Value)
		return
	}
	if n.Anchor != "" {
		p.r.add(at, "anchor &%s is not supported; write the value out where it is needed", n.Anchor)
	}
	if n.Style&yaml.TaggedStyle != 0 {
		p.r.add(at, "tag %s is not supported; remove it", n.Tag)
	}
	switch n.Kind {
	case yaml.ScalarNode:
		p.expandNode(n)
	case yaml.SequenceNode:
		for _, c := range n.Content {
			p.prepare(c)
		}
	case yaml.MappingNode:
		p.prepareMapping(n)
	}
}

// prepareMapping leaves in n only pairs with a usable key, each key once.
func (p *preparer) prepareMapping(n *yaml.Node) {
	seen := make(map[string]*yaml.Node, len(n.Content)/2)
	kept := n.Content[:0]
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		val := n.Content[i+1]
		p.prepare(val)
		if !p.checkKey(key) {
			continue
		}
		if first, dup := seen[key.Value]; dup {
			p.r.add(p.doc.place(key), "duplicate key %s; it is first written at %s, remove one",
				show(key.Value), p.doc.place(first))
			continue
		}
		seen[key.Value] = key
		kept = append(kept, key, val)
	}
	n.Content = kept
}

func (p *preparer) checkKey(key *yaml.Node) bool {
	at := p.doc.place(key)
	switch {
	case key.Kind == yaml.AliasNode:
		p.r.add(at, "alias *%s is not supported; write the key out", key.Value)
	case key.Kind != yaml.ScalarNode:
		p.r.add(at, "a %s is written where a key belongs; write a name", kindName(key))
	case key.Tag == "!!merge":
		p.r.add(at, "merge key << is not supported; write the keys out")
	case key.Anchor != "":
		p.r.add(at, "anchor &%s is not supported; write the key without it", key.Anchor)
	case key.Style&yaml.TaggedStyle != 0:
		p.r.add(at, "tag %s is not supported; remove it", key.Tag)
	case key.Tag == "!!null" || key.Value == "":
		p.r.add(at, "key is empty; write a name before the colon")
	default:
		return true
	}
	return false
}

func (p *preparer) expandNode(n *yaml.Node) {
	if p.env == nil {
		p.refuseVariable(n)
		return
	}
	if !strings.Contains(n.Value, "$") {
		return
	}
	text, err := expand(n.Value, p.env)
	if err != nil {
		p.r.add(p.doc.place(n), "%v", err)
		p.doc.broken[n] = true
		return
	}
	if text == n.Value {
		return
	}
	p.doc.typed[n] = n.Value
	n.Value = text
}

// refuseVariable reports ${ in a file that is read as written. The authors of such files, unlike those of the config,
// must not read the gateway's environment; and a text that would mean its variable elsewhere must not pass as itself.
func (p *preparer) refuseVariable(n *yaml.Node) {
	if !strings.Contains(n.Value, "${") {
		return
	}
	p.r.add(p.doc.place(n), errNoVariables, show(n.Value))
	p.doc.broken[n] = true
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

const (
	errNoVariables = "%s: variables are expanded only in the config file; write the value itself"

	errUnclosed  = "${ without } in %s; write ${NAME}, or $$ for a dollar sign"
	errBadName   = "%s is not the name of a variable; write ${NAME} or ${NAME:-default}"
	errNested    = "${ inside the default of %s is not supported; use one variable"
	errUnsetName = "${%s}: %s is not set; set it, or write ${%s:-default}"
)

// expand replaces ${VAR} and ${VAR:-default} in text by the environment's values and $$ by $. Any other $ stays.
// As in a shell the default is also taken for a variable that is set but empty. What is put in is not expanded again.
func expand(text string, env map[string]string) (string, error) {
	var out strings.Builder
	for rest := text; ; {
		i := strings.IndexByte(rest, '$')
		if i < 0 || i+1 == len(rest) {
			out.WriteString(rest)
			return out.String(), nil
		}
		out.WriteString(rest[:i])
		switch rest[i+1] {
		case '$':
			out.WriteByte('$')
			rest = rest[i+2:]
		case '{':
			end := strings.IndexByte(rest[i:], '}')
			if end < 0 {
				return "", fmt.Errorf(errUnclosed, show(rest[i:]))
			}
			value, err := lookup(rest[i+2:i+end], env)
			if err != nil {
				return "", err
			}
			out.WriteString(value)
			rest = rest[i+end+1:]
		default:
			out.WriteByte('$')
			rest = rest[i+1:]
		}
	}
}

// lookup answers for the inside of ${…}.
func lookup(inside string, env map[string]string) (string, error) {
	name, fallback, hasDefault := strings.Cut(inside, ":-")
	if !variable.MatchString(name) {
		return "", fmt.Errorf(errBadName, show(name))
	}
	if strings.Contains(fallback, "${") {
		return "", fmt.Errorf(errNested, name)
	}
	value, set := env[name]
	if hasDefault && value == "" {
		return fallback, nil
	}
	if !set {
		return "", fmt.Errorf(errUnsetName, name, name, name)
	}
	return value, nil
}

// environment makes a map of a list like os.Environ(); the last of a repeated name counts.
func environment(list []string) map[string]string {
	env := make(map[string]string, len(list))
	for _, entry := range list {
		if name, value, ok := strings.Cut(entry, "="); ok {
			env[name] = value
		}
	}
	return env
}

// Expander replaces ${VAR} and ${VAR:-default} in texts as it is done in the config file, by the variables of a list
// like os.Environ().
func Expander(environ []string) func(text string) (string, error) {
	env := environment(environ)
	return func(text string) (string, error) { return expand(text, env) }
}
