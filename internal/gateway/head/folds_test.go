package head

import (
	"strings"
	"testing"
	"unicode"
)

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
