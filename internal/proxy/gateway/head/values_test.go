package head

import (
	"encoding/json"
	"math/rand"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/tidwall/gjson"
)

// A text is unescaped as encoding/json does it, and a long one is cut, but never so that it could pass for a name.
//
// Seen to fail with: a cut behind a backslash; a cut at maxName bytes of the body.
func TestTextOf(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	parts := []string{"a", "é", `\n`, `\\`, `\"`, `\u0061`, `\ud83d\ude00`, `\ud800`, "word"}
	for range testkit.Rounds(4_000, 20_000) {
		var b strings.Builder
		first := r.Intn(len(parts))
		some := parts[first : first+1+r.Intn(len(parts)-first)]
		for range r.Intn(2) * r.Intn(2*maxName*len(`\u0000`)) {
			b.WriteString(some[r.Intn(len(some))])
		}
		raw := `"` + b.String() + `"`
		var want string
		testkit.OK(t, json.Unmarshal([]byte(raw), &want))
		got := textOf(valueAt(raw, 0))
		if len(raw) <= longestText && got != want {
			t.Fatalf("%s: %q, want %q", raw, got, want)
		}
		if got != want && len(got) <= maxName {
			t.Fatalf("%s: only %q", raw, got)
		}
	}
}

// Members and elements are those that gjson finds.
//
// Seen to fail with: members of inner objects; the place of a value counted from its object.
func TestEach(t *testing.T) {
	type member struct {
		key   string
		value gjson.Result
	}
	r := rand.New(rand.NewSource(1))
	for range 4_000 {
		body := ` {"x": ` + randomValue(r, 0) + "}"
		v := gjson.Get(body, "x")
		if v.Type != gjson.JSON {
			continue
		}
		var want, got []member
		v.ForEach(func(key, value gjson.Result) bool {
			want = append(want, member{key.Str, valueAt(value.Raw, value.Index)})
			return true
		})
		new(Head).each(v, func(key, value gjson.Result) bool {
			got = append(got, member{key.Str, value})
			return true
		})
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(member{})); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", body, diff)
		}
		if isEmpty(v) != (len(want) == 0) {
			t.Fatalf("%s: empty is %v", body, isEmpty(v))
		}
	}
}

// A key is found if and only if it differs from a name in case alone, whatever runes it has.
func TestFolds(t *testing.T) {
	names := []string{"stream", "ask", "model", "s", "k"}
	var f folds[bool]
	for _, name := range names {
		f.add(name, true)
	}
	const runes = "askmodelstrÅåßİıſ\u212aÄöΣς界"
	var all []string
	for _, name := range names {
		all = append(all, name, strings.ToUpper(name), name+"s", name[1:])
		for i := range name {
			for _, r := range runes {
				all = append(all, name[:i]+string(r)+name[i+1:], string(r)+name, name+string(r))
			}
		}
	}
	for _, key := range all {
		want := ""
		for _, name := range names {
			if strings.EqualFold(name, key) {
				want = name
			}
		}
		got := ""
		if one := f.find(key); one != nil {
			got = one.name
		}
		if got != want {
			t.Errorf("%q is taken for %q, not %q", key, got, want)
		}
	}
}

// No rune but the two that asASCII replaces is another case of an ASCII letter.
func TestAsASCII(t *testing.T) {
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		folds := false
		for c := unicode.SimpleFold(r); c != r; c = unicode.SimpleFold(c) {
			folds = folds || c < 0x80
		}
		got := asASCII(string(r))
		if isASCII(got) != folds || !strings.EqualFold(got, string(r)) {
			t.Errorf("%q becomes %q", r, got)
		}
	}
}
