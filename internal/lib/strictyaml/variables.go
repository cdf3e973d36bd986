package strictyaml

import (
	"fmt"
	"regexp"
	"strings"
)

// Expander replaces ${VAR} and ${VAR:-default} in texts as it is done in the config file, by the variables of a list
// like os.Environ().
func Expander(environ []string) func(text string) (string, error) {
	env := environment(environ)
	return func(text string) (string, error) { return expand(text, env) }
}

// expand replaces ${VAR} and ${VAR:-default} in text by the environment's values and $$ by $. Any other $ stays.
// As in a shell the default is also taken for a variable that is set but empty. The values are not expanded again.
func expand(text string, env map[string]string) (string, error) {
	if !strings.Contains(text, "$") {
		return text, nil
	}
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
				return "", fmt.Errorf(errUnclosed, Show(rest[i:]))
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

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

const (
	errUnclosed = "${ without } in %s; write ${NAME}, or $$ for a dollar sign"
	errBadName  = "%s is not the name of a variable; write ${NAME} or ${NAME:-default}"
	errNested   = "${ inside the default of %s is not supported; use one variable"
)

// unsetError is the name of a variable that is not set.
type unsetError string

func (e unsetError) Error() string {
	return fmt.Sprintf("${%s}: %s is not set; set it, or write ${%s:-default}", string(e), string(e), string(e))
}

// lookup answers for the inside of ${…}.
func lookup(inside string, env map[string]string) (string, error) {
	name, fallback, hasDefault := strings.Cut(inside, ":-")
	if !variable.MatchString(name) {
		return "", fmt.Errorf(errBadName, Show(name))
	}
	if strings.Contains(fallback, "${") {
		return "", fmt.Errorf(errNested, name)
	}
	value, set := env[name]
	if hasDefault && value == "" {
		return fallback, nil
	}
	if !set {
		return "", unsetError(name)
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

// NoVariables refuses ${ in a file that is read as written: an Expand of [File]. The authors of such files, unlike those of the config,
// must not read the gateway's environment; and a text that would mean its variable elsewhere must not pass as itself.
func NoVariables(text string) (string, error) {
	if strings.Contains(text, "${") {
		return "", fmt.Errorf("%s: variables are expanded only in the config file; write the value itself", Show(text))
	}
	return text, nil
}
