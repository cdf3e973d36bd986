package tenants

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
)

// hostile are policies that somebody could put beside the others to make gateways die or hang.
var hostile = []struct {
	name, want string
	files      func(write func(name, text string))
}{
	{name: "3000 teams in each other", want: `team "t" is one level too deep; teams may stand in each other 16 deep`, files: func(write func(name, text string)) {
		write("a", "tenants: {r: {keys: [], teams: "+strings.Repeat("{t: {keys: [], teams: ", 3000)+
			"{"+many(8000, ", ", "l%d: {keys: []}")+"}"+strings.Repeat("}}", 3000)+"}}\n")
	}},
	{name: "long paths", want: "longer than 512 bytes with those of its parents", files: func(write func(name, text string)) {
		write("a", "tenants: {r: {keys: [], teams: "+strings.Repeat("{"+strings.Repeat("t", 100)+": {keys: [], teams: ", 8)+
			"{"+many(8000, ", ", "l%d: {keys: []}")+"}"+strings.Repeat("}}", 8)+"}}\n")
	}},
	{name: "many tenants", want: "there are more than 20000 tenants and teams", files: func(write func(name, text string)) {
		write("a", "tenants: {"+many(10_000, ", ", "a%d: {keys: []}")+"}\n")
		write("b", "tenants: {"+many(10_001, ", ", "b%d: {keys: []}")+"}\n")
	}},
	{name: "many tiers", want: "there are more than 200 tiers", files: func(write func(name, text string)) {
		write("a", "tiers: {"+many(20_000, ", ", "a%d: {}")+"}\n")
	}},
	{name: "many keys", want: "tenants.a.keys: has 251 entries, more than the 250 that are supported", files: func(write func(name, text string)) {
		write("a", "tenants: {a: {keys: ["+many(251, ", ", "sha256:%064x")+"]}}\n")
	}},
	{name: "patterns that cross", want: "tenants.a.teams.b.models: these patterns have more than 250 in common with those of the parents", files: func(write func(name, text string)) {
		write("a", "tenants: {a: {keys: [], models: ["+many(200, ", ", "a%d*")+"], teams: {b: {keys: [], models: ["+many(200, ", ", `"*b%d"`)+"]}}}}\n")
	}},
	{name: "many pairs of patterns", want: "make more than 10000000 pairs", files: func(write func(name, text string)) {
		list := many(240, ", ", "a%d*")
		write("a", "tenants: {a: {keys: [], models: ["+list+"], teams: {"+many(180, ", ", "b%d: {keys: [], models: ["+strings.ReplaceAll(list, "%", "%%")+"]}")+"}}}\n")
	}},
	{name: "many values", want: "hold more than the 400000 lines and values", files: func(write func(name, text string)) {
		write("a", "tenants: {a: {keys: [], models: ["+strings.Repeat("a,", 400_000)+"]}}\n")
	}},
	{name: "many bytes", want: "larger than the 16 MiB that they may have together", files: func(write func(name, text string)) {
		for i := range 5 {
			write(fmt.Sprint("f", i), "#"+strings.Repeat("x", 4<<20-100)+"\n"+fmt.Sprintf("tenants: {t%d: {keys: []}}\n", i))
		}
	}},
	{name: "many files", want: "there are 10001 policy files, more than the 10000", files: func(write func(name, text string)) {
		for i := range 10_001 {
			write(fmt.Sprint("f", i), fmt.Sprintf("tenants: {t%d: {keys: []}}\n", i))
		}
	}},
	{name: "many mistakes", want: "these are the first 1000 problems; fix them to see more", files: func(write func(name, text string)) {
		write("a", "tenants: {"+many(3000, ", ", "t%d: {tier: nowhere-at-all, keys: []}")+"}\ntiers: {"+many(50, ", ", "somewhere-else-%d: {}")+"}\n")
	}},
}

// many writes format n times, with the number in it.
func many(n int, sep, format string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(list, sep)
}

// TestAudit_M8_HostilePoliciesStaySmall: what is far too much is refused with a clear message, at its place, before it
// takes much memory.
func TestAudit_M8_HostilePoliciesStaySmall(t *testing.T) {
	for _, c := range hostile {
		t.Run(c.name, func(t *testing.T) {
			fsys := files(map[string]string{"llmgov.yaml": strings.Replace(goodConfig, "[gpt-4o]", `["*"]`, 1)})
			c.files(func(name, text string) {
				fsys["tenants/"+name+".yaml"] = &fstest.MapFile{Data: []byte(text)}
			})
			before := allocated()
			_, err := LoadFS(fsys, "llmgov.yaml", Options{})
			used := allocated() - before
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %.300v, want %s", err, c.want)
			}
			if !strings.Contains(err.Error(), ".yaml:1:") {
				t.Errorf("without a place: %.300v", err)
			}
			if used > 512<<20 {
				t.Errorf("%d MiB were allocated on the way", used>>20)
			}
		})
	}
}

// allocated is how much memory was ever asked for: unlike what is in use, it does not depend on when it is collected.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// TestAudit_M8_ReloadCountsFilesThatAreRemembered: files that are not parsed again count as much as those that are.
func TestAudit_M8_ReloadCountsFilesThatAreRemembered(t *testing.T) {
	fsys := files(map[string]string{"llmgov.yaml": goodConfig, "tenants/a.yaml": "tenants: {" + many(50_000/4, ", ", "a%d: {keys: []}") + "}\n"})
	l := &loader{fsys: fsys, config: "llmgov.yaml", shown: "llmgov.yaml"}
	if _, err := load(l); err != nil {
		t.Fatal(err)
	}
	fsys["tenants/b.yaml"] = &fstest.MapFile{Data: []byte("tenants: {b: {keys: [], models: [" + strings.Repeat("a,", 375_000) + "]}}\n")}
	if _, err := load(l); err == nil || !strings.Contains(err.Error(), "hold more than the 400000 lines and values") {
		t.Errorf("got %.300v", err)
	}
}

// TestAudit_M8_BuildHasTheSameDepth: what is made in code is held to the depth of files.
func TestAudit_M8_BuildHasTheSameDepth(t *testing.T) {
	var list []Tenant
	for depth := range maxTeamDepth + 2 {
		list = append(list, Tenant{Name: "t" + strings.Repeat("/t", depth), Keys: []Key{{Hash: HashKey(fmt.Sprint(depth))}}})
	}
	if _, err := Build(configOf([]string{"m"}), list[:maxTeamDepth+1]); err != nil {
		t.Errorf("16 deep: %v", err)
	}
	if _, err := Build(configOf([]string{"m"}), list); err == nil || !strings.Contains(err.Error(), "one level too deep") {
		t.Errorf("17 deep: %v", err)
	}
}
