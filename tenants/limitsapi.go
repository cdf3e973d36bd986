package tenants

import (
	"regexp"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// LimitsAPI says how llmgov check asks an upstream of kind OpenAI or Anthropic for its list of limits. The zero value does not ask.
type LimitsAPI struct {
	// Key is an administrator's, which is sent for nothing else.
	Key string
	// Project is OpenAI's project of the APIKey.
	Project string
	// Workspace is Anthropic's workspace of the APIKey; empty is that of the organization itself.
	Workspace string
}

// idPattern matches identifiers of projects and workspaces.
const idPattern = `^[0-9A-Za-z_-]+$`

var anID = regexp.MustCompile(idPattern)

var limitsAPIShape = shape[LimitsAPI]{
	Fields: []field[LimitsAPI]{
		{
			Name: "key", About: "An administrator's key. Best \"${NAME}\" or \"file:/run/secrets/name\".",
			Kind: strictyaml.TextKind(secretPattern), Read: func(v value, l *LimitsAPI) { l.Key = readSecret(v) }, Need: needLimitsKey,
		},
		idField("project", "OpenAI's project of api_key, such as proj_abc.", func(l *LimitsAPI) *string { return &l.Project }),
		idField("workspace", "Anthropic's workspace of api_key, such as wrkspc_abc, if it is not the default one.", func(l *LimitsAPI) *string { return &l.Workspace }),
	},
	Short: "key",
}

const needLimitsKey = "write an administrator's, such as \"${OPENAI_ADMIN_KEY}\""

func idField(name, about string, at func(*LimitsAPI) *string) field[LimitsAPI] {
	return field[LimitsAPI]{
		Name: name, About: about, Kind: strictyaml.StringKind(idPattern),
		Read: func(v value, l *LimitsAPI) { *at(l), _ = v.Scalar() },
	}
}

var limitsAPIField = field[Upstream]{
	Name: "limits_api", About: "How llmgov check --upstreams asks the provider for its list of limits, instead of calling a model.",
	Kind: func() schema { return limitsAPIShape.Schema(&LimitsAPI{}) },
	Read: func(v value, u *Upstream) {
		if limitsAPIShape.Read(v, &u.LimitsAPI); refusedAny(v, "key", "project", "workspace") || v.Report.Refused[v.Path] {
			u.LimitsAPI = LimitsAPI{}
		}
	},
}

// complain is what is wrong with how an upstream of a kind is asked for its limits.
func (l *LimitsAPI) complain(kind string) string {
	switch {
	case *l == (LimitsAPI{}) || kind == strictyaml.Unreadable:
		return ""
	case l.Key == "":
		return "has no key; " + needLimitsKey
	case checkSecret(l.Key) != "":
		return "has a key that cannot be sent in a header; write letters, digits and signs, without spaces"
	case l.Project != "" && !anID.MatchString(l.Project) || l.Workspace != "" && !anID.MatchString(l.Workspace):
		return "names no project or workspace; write letters, digits, - and _, such as proj_abc"
	case kind == OpenAI && l.Project == "":
		return "has no project, by which OpenAI lists limits; write project: proj_abc"
	case kind == OpenAI && l.Workspace != "" || kind == Anthropic && l.Project != "":
		return "names what its kind does not have; write project with kind openai, and workspace with kind anthropic"
	case kind != OpenAI && kind != Anthropic:
		return "is of a kind that lists no limits; write kind openai or anthropic, or remove it"
	}
	return ""
}

// limitsKey is the path of an upstream's key for its list of limits.
func limitsKey(upstream string) string {
	return strictyaml.Child(strictyaml.Child(strictyaml.Child("upstreams", upstream), "limits_api"), "key")
}
