package readers

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

func sortedKeys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

// corpus are the texts in a folder of testdata.
func corpus(t *testing.T, folder string) (list []string) {
	t.Helper()
	paths := testkit.Must(filepath.Glob(filepath.Join("testdata", folder, "*")))(t)
	for _, path := range paths {
		text := testkit.Must(os.ReadFile(path))(t)
		list = append(list, string(text))
	}
	return list
}

// one is one of several texts.
func one(r *rand.Rand, list ...string) string { return list[r.Intn(len(list))] }

// mutated changes a few bytes, one time in three.
func mutated(r *rand.Rand, text []byte) []byte {
	if r.Intn(3) > 0 || len(text) == 0 {
		return text
	}
	for range 1 + r.Intn(3) {
		i := r.Intn(len(text))
		j := min(len(text), i+1+r.Intn(12))
		switch r.Intn(5) {
		case 0: // take away
			text = slices.Delete(slices.Clone(text), i, j)
		case 1: // twice
			text = slices.Concat(text[:j], text[i:])
		case 2: // elsewhere
			k := r.Intn(len(text))
			text = slices.Concat(text[:k], text[i:j], text[k:])
		case 3: // a special byte
			text = slices.Concat(text[:i], []byte(one(r, "\x00", "\r", "\n", "\"", "\\", " ", "\t", ";", "=", "-", "\xff", "\u212a", "\u017f", ",", "{", "}", "[", "]", ":", "\ufeff")), text[i:])
		case 4:
			text = bytes.Clone(text)
			text[i] ^= 1 << r.Intn(8)
		}
		if len(text) == 0 {
			return text
		}
	}
	return text
}

// randomBody is a JSON object much like a call.
func randomBody(r *rand.Rand) string {
	members := []string{`"model":` + one(r, `"ok"`, `"ok"`, `"ok"`, `"o\u006b"`, `"bad"`, `"ok\u0000"`)}
	for range r.Intn(7) {
		members = append(members, randomMember(r, 2))
	}
	r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return blank(r) + "{" + blank(r) + strings.Join(members, blank(r)+","+blank(r)) + blank(r) + "}" + blank(r)
}

func blank(r *rand.Rand) string {
	if r.Intn(40) == 0 {
		return strings.Repeat(" ", r.Intn(140))
	}
	return one(r, "", "", "", "", "", " ", "\n", "\t\r\n")
}

// randomMember is a key with its value; keys may be written oddly.
func randomMember(r *rand.Rand, depth int) string {
	names := slices.Concat(deciding, holding, []string{"integrations", "purpose", "endpoint", "user", "metadata", "x", "__proto__", "constructor", ""})
	if r.Intn(4) == 0 {
		names = slices.Concat(referring, []string{"input", "input", "messages", "audio", "attributes", "x"})
	}
	name := names[r.Intn(len(names))]
	return `"` + odd(r, name) + `"` + blank(r) + ":" + blank(r) + randomValue(r, name, depth)
}

// odd writes a key in another way, now and then.
func odd(r *rand.Rand, key string) string {
	if key == "" || r.Intn(8) > 0 {
		return key
	}
	i := r.Intn(len(key))
	j := i + 1
	switch r.Intn(5) {
	case 4: // all of it, which makes it long
		i = 0
		j = len(key)
		fallthrough
	case 0:
		return key[:i] + escaped(key[i:j]) + key[j:]
	case 1:
		return strings.ToUpper(key[:i+1]) + key[i+1:]
	case 2:
		return strings.NewReplacer("k", "\u212a", "s", "\u017f").Replace(key)
	}
	return key + one(r, " ", `\u0000`, "[]", ".")
}

// escaped writes each byte as an escape.
func escaped(text string) (all string) {
	for i := range len(text) {
		all += fmt.Sprintf(`\u%04x`, text[i])
	}
	return all
}

// randomValue is a value, most often one that fits its key.
func randomValue(r *rand.Rand, name string, depth int) string {
	list := func(of func() string) string {
		var items []string
		for range r.Intn(4) {
			items = append(items, of())
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	object := func(of func() string) string { return strings.NewReplacer("[", "{", "]", "}").Replace(list(of)) }
	model := func() string { return one(r, `"ok"`, `"ok"`, `"ok"`, `"bad"`, `null`, `"o\u006b"`) }
	if r.Intn(10) > 0 && depth > 0 {
		switch name {
		case "models":
			return list(model)
		case "fallbacks":
			return list(func() string {
				return one(r, model(), `{"model":`+model()+`}`, `{"model":`+model()+`,"model":`+model()+`}`)
			})
		case "tools", "plugins":
			return list(func() string { return randomTool(r, depth-1) })
		case "extra_body":
			var members []string
			for range r.Intn(4) {
				members = append(members, randomMember(r, depth-1))
			}
			return "{" + strings.Join(append(members, `"`+odd(r, "model")+`":`+model()), ",") + "}"
		case "stream_options":
			return one(r, `{"include_usage":true}`, `{"include_usage":false,"x":1}`, `{}`, `null`, `{"include\u005fusage":true,"include_usage":false}`)
		case "stream", "background", "store":
			return one(r, "true", "false", "null")
		case "n", "best_of":
			return one(r, "1", "2", "1024", "1025", "null")
		case "max_tokens", "max_completion_tokens", "max_output_tokens":
			return one(r, "1", "99", "100", "101", "5000", "null", "1000000000")
		case "prompt":
			return one(r, `"x"`, `["a","b"]`, `[1,2]`, `[[1],[2]]`)
		case "input", "messages":
			return list(func() string { return randomItem(r) })
		case "audio", "container":
			return one(r, `{"id":`+randomID(r)+`}`, randomID(r), randomItem(r))
		}
		if slices.Contains(referring, name) {
			return one(r, randomID(r), list(func() string { return randomID(r) }))
		}
	}
	switch r.Intn(9) {
	case 8:
		return long(r)
	case 0:
		return object(func() string { return randomMember(rand.New(rand.NewSource(r.Int63())), 0) })
	case 1:
		return list(func() string { return one(r, "1", `"x"`, "null", "[]", "{}") })
	}
	return one(r, "null", "true", "false", "0", "-1", "-0", "1e3", "1.0", "1e400", "18446744073709551616", "01", "NaN", "Infinity", "0x10", `""`, `"x"`,
		`"\ud800"`, `"\ud83d\ude00"`, `"a\"b\\"`, `"\u0000"`, "\"\xff\"", "\"\u2028\"", `'x'`, "/**/1", "{", "undefined")
}

func randomTool(r *rand.Rand, depth int) string {
	members := []string{`"type":` + one(r, `"function"`, `"image_generation"`, `"advisor_20260301"`, `"namespace"`, `"x"`)}
	for range r.Intn(3) {
		members = append(members, `"`+odd(r, "model")+`":`+one(r, `"ok"`, `"ok"`, `"bad"`, "null", "1"))
	}
	if depth > 0 && r.Intn(3) == 0 {
		members = append(members, `"tools":[`+randomTool(r, depth-1)+`]`)
	}
	if r.Intn(6) == 0 {
		members = append(members, `"type":"image_generation"`)
	}
	r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return "{" + strings.Join(members, ",") + "}"
}

// randomItem is an item of input, or a message. It may be there by its id alone.
func randomItem(r *rand.Rand) string {
	var members []string
	for range 1 + r.Intn(4) {
		name := one(r, "id", "id", "type", "type", "content", "encrypted_content", "file_id", "skill_id", "audio", "metadata", "role")
		value := one(r, "null", `"x"`, `""`, long(r), "[]", "1")
		switch name {
		case "id", "file_id", "skill_id":
			value = randomID(r)
		case "type":
			value = one(r, `"message"`, `"item_reference"`, `"reasoning"`, `"image_generation_call"`, `"anthropic"`, "null", "1")
		case "audio", "metadata":
			value = `{"id":` + randomID(r) + `}`
		}
		members = append(members, `"`+odd(r, name)+`":`+blank(r)+value)
	}
	return "{" + strings.Join(members, ",") + "}"
}

// randomID is the id of an object, now and then of one that the tenant does not have.
func randomID(r *rand.Rand) string {
	if r.Intn(8) == 0 {
		return one(r, `"theirs"`, `"their\u0073"`, `"mine\u0000"`, `"Mine"`, `""`, "null", "1", long(r))
	}
	return one(r, `"mine"`, `"\u006dine"`, `"`+seen[1]+`"`, `"`+strings.Replace(seen[1], "/", one(r, `\/`, `\u002f`), 1+r.Intn(8))+`"`)
}

// long is a string that spans some of the blocks of 64 bytes at which a scan looks. In it is what ends such a look, and
// what seems to.
func long(r *rand.Rand) string {
	text := `"`
	for range 1 + r.Intn(4) {
		text += strings.Repeat(one(r, "a", "a", "=", "\u00e9", "\u2028"), r.Intn(140))
		text += one(r, "", `\"`, `\\`, `\\\"`, `\u0022`, `\n`, "\u00e9", "\U0001f600", `\ud83d\ude00`, `\ud800`, "{", `,\"model\":\"bad\"`, "\x7f", "\t", "\xff")
	}
	return text + `"`
}
