package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// recorded reads a scenario of tenants a and b, whose loads are to name the files one.csv and two.csv beside it. Problems
// are without the name of the folder.
func recorded(t *testing.T, one, two, a, b string) (Scenario, string) {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{"one.csv": one, "two.csv": two} {
		testkit.OK(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	text := "warmup: 0s\ntenants:\n  - {name: a, load: {kind: trace, file: " + a + "}}\n  - {name: b, load: {kind: trace, file: " + b + "}}\n"
	s, err := Parse(filepath.Join(folder, "mine.yaml"), []byte(text))
	if err != nil {
		return s, strings.ReplaceAll(err.Error(), folder+string(filepath.Separator), "")
	}
	return s, ""
}

// TestRecorded_Times: times of all forms are the same calls, and those of two files stand as they stood to each other.
func TestRecorded_Times(t *testing.T) {
	const second = time.Second
	for what, times := range map[string][4]string{ // two of a, the earliest of all of b, and another
		"Azure":                {"2023-11-16 18:17:03.9799600", "2023-11-16 18:17:04.4799600", "2023-11-16 18:15:03.9799600", "2023-11-16 18:15:05.9799600"},
		"RFC 3339":             {"2023-11-16T18:17:03Z", "2023-11-16T18:17:03.5Z", "2023-11-16T19:15:03+01:00", "2023-11-16T18:15:05Z"},
		"no zone":              {"2023-12-31T23:59:59", "2023-12-31T23:59:59.5", "2023-12-31T23:57:59", "2023-12-31T23:58:01"},
		"pandas":               {"2024-02-29 00:00:00.000001+00:00", "2024-02-29 00:00:00.500001+00:00", "2024-02-29 00:58:00.000001+01:00", "2024-02-28 23:58:02.000001+00:00"},
		"PostgreSQL":           {"2023-11-16 18:17:03+00", "2023-11-16 18:17:03.5+00", "2023-11-16 19:15:03+01", "2023-11-16 18:15:05+00"},
		"BigQuery":             {"2023-11-16 18:17:03 UTC", "2023-11-16 18:17:03.5 UTC", "2023-11-16 18:15:03 UTC", "2023-11-16 18:15:05 UTC"},
		"an access log":        {"16/Nov/2023:18:17:03 +0000", "16/Nov/2023:18:17:03.5 +0000", "16/Nov/2023:10:15:03 -0800", "16/Nov/2023:18:15:05 +0000"},
		"Unix seconds":         {"1700158623", "1700158623.5", "1700158503", "1700158505"},
		"Unix milliseconds":    {"1700158623000", "1700158623500", "1700158503000", "1700158505000"},
		"Unix microseconds":    {"1700158623000000", "1700158623500000", "1700158503000000", "1700158505000000"},
		"Unix nanoseconds":     {"1700158623000000000", "1700158623500000000", "1700158503000000000", "1700158505000000000"},
		"seconds from a start": {"120", "120.5", "0", "2"},
	} {
		// The lines of a come in no order, and its file as spreadsheets write it.
		one := "\ufefftime,\"input\",output,model\r\n" + times[1] + ",3,4,x\r\n" + times[0] + ",1.0,\"2\",\"y, z\"\r\n"
		two := "answer,prompt,when\n6,5," + times[2] + "\n0,7," + times[3] + "\n"
		s, problems := recorded(t, one, two, "one.csv, speed: 2", "two.csv, columns: {time: when, input: prompt, output: answer}")
		if problems != "" {
			t.Errorf("%s: %s", what, problems)
			continue
		}
		for i, want := range [][]Call{
			{{At: 60 * second, Input: 1, Output: 2}, {At: 60*second + second/4, Input: 3, Output: 4}},
			{{At: 0, Input: 5, Output: 6}, {At: 2 * second, Input: 7, Output: 0}},
		} {
			if d := cmp.Diff(want, s.Tenants[i].Load.Calls); d != "" {
				t.Errorf("%s, tenant %s (-want +got):\n%s", what, s.Tenants[i].Name, d)
			}
		}
		if s.Duration != 61*second {
			t.Errorf("%s: the run takes %v, want until after the last call", what, s.Duration)
		}
	}
}

func TestRecorded_Tenants(t *testing.T) {
	const file = "time,input,output,tenant\n0,1,1,a\n1,2,2,b\n2,3,3, a\n"
	s, problems := recorded(t, file, "", "one.csv", "one.csv")
	if problems != "" {
		t.Fatal(problems)
	}
	got := [][]Call{s.Tenants[0].Load.Calls, s.Tenants[1].Load.Calls}
	if d := cmp.Diff([][]Call{{{0, 1, 1}, {2 * time.Second, 3, 3}}, {{time.Second, 2, 2}}}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	two, _ := recorded(t, "time,input,output\n0,1,1\n", "", "one.csv", "one.csv")
	if len(two.Tenants[0].Load.Calls) != 1 || len(two.Tenants[1].Load.Calls) != 1 {
		t.Errorf("a file without tenants is played by each that names it: %+v", two.Tenants)
	}
}

func TestRecorded_Problems(t *testing.T) {
	const good = "time,input,output\n0,1,1\n"
	for _, c := range []struct{ one, a, want string }{
		{"", "one.csv", "one.csv:1:1: the file is empty; write a line of names, such as time,input,output, and a line for each call"},
		{"time,input,output\n", "one.csv", "one.csv:1:1: there is no line below the header; write one for each call"},
		{"TIMESTAMP,ContextTokens,output\n0,1,2\n", "one.csv, columns: {input: ContextToken}", `one.csv:1:1: there is no column "ContextToken"; write in the scenario which is it, columns: {input: NAME}: did you mean "ContextTokens"?
one.csv:1:1: there is no column "time"; write in the scenario which is it, columns: {time: NAME}: did you mean "TIMESTAMP"?`},
		{"time,input,output,input\n0,1,2,3\n", "one.csv", `one.csv:1:1: there are two columns "input"; give one of them another name`},
		{good, "one.csv, columns: {tenant: who}", `one.csv:1:1: there is no column "who"; write in the scenario which is it, columns: {tenant: NAME}: known are input, output, time`},
		{"time,input,output\n0,1,1\n1,ten,-1\n2,1.5,1e10\n", "one.csv", `one.csv:3:3: input: "ten" is not a number of tokens; write a whole number from 0 to 1000000000
one.csv:3:7: output: "-1" is not a number of tokens; write a whole number from 0 to 1000000000
one.csv:4:3: input: "1.5" is not a number of tokens; write a whole number from 0 to 1000000000
one.csv:4:7: output: "1e10" is not a number of tokens; write a whole number from 0 to 1000000000`},
		{"time,input,output\n0,NaN,\n", "one.csv", `one.csv:2:3: input: "NaN" is not a number of tokens; write a whole number from 0 to 1000000000
one.csv:2:7: output: "" is not a number of tokens; write a whole number from 0 to 1000000000`},
		{"time,input,output\n16.11.2023,1,1\n", "one.csv", `one.csv:2:1: time: "16.11.2023" is not a time; write 2026-11-16 18:17:03.98, 2026-11-16T18:17:03Z, Unix time, or seconds from the start`},
		{"time,input,output\n-1,1,1\n", "one.csv", `one.csv:2:1: time: "-1" is not a time; write 2026-11-16 18:17:03.98, 2026-11-16T18:17:03Z, Unix time, or seconds from the start`},
		{"time,input,output\n2023-11-16 18:17:03,1,1\n1700158623,1,1\n", "one.csv", `one.csv:3:1: time: "1700158623" is not a time of the form of the lines before; write all in one form`},
		{"time,input,output\n0,1\n\n1,1,1,1\n", "one.csv", `one.csv:2:1: the line has 2 values, and the header 3 names; write a value for each
one.csv:4:1: the line has 4 values, and the header 3 names; write a value for each`},
		{"time,input,output\n0,\"1\"2,3\n", "one.csv", `one.csv:2:5: extraneous or missing " in quoted-field; write text with " or , in it between quotes, and " in it twice`},
		{"time,input,output,tenant\n0,1,1,a\n0,1,1,\n0,1,1,mallory\n0,1,1,eve\n", "one.csv", `one.csv:3:7: tenant: "" is no tenant; write a name`},
		{"time,input,output,tenant\n0,1,1,a\n0,1,1,mallory\n0,1,1,eve\n", "one.csv", `one.csv:4:7: no tenant takes the calls of "eve" and 1 more; add one of that name with this load, or take the lines out of the file`},
		{"time,input,output,tenant\n0,1,1,A\n", "one.csv", `mine.yaml:3:41: tenants[0].load.file: has no call of "a"; did you mean "A"?
one.csv:2:7: no tenant takes the calls of "A"; add one of that name with this load, or take the lines out of the file`},
		{good, "none.csv", "mine.yaml:3:41: tenants[0].load.file: cannot be read: open none.csv: no such file or directory; write a path from the folder of the scenario"},
		{good, "/dev/zero", `mine.yaml:3:41: tenants[0].load.file: "/dev/zero" is not a file; write the path of one, from the folder of the scenario`},
		{"time,input,output\n700000,1,1\n", "one.csv", "mine.yaml:3:41: tenants[0].load.file: has its first call after 194h26m40s, and the run ends after 168h0m0s; if it belongs to another day than the other files, write times as seconds from the start"},
		{"time,input,output\n9e7,1,1\n", "one.csv, speed: 0.001", "mine.yaml:3:41: tenants[0].load.file: has its first call after 1281023h53m38.427387904s, and the run ends after 168h0m0s; if it belongs to another day than the other files, write times as seconds from the start"},
		{"time,input,output\n0,1,1\n9e7,1,1\n", "one.csv, speed: 0.001", ""},
		{good, "one.csv, speed: 0", "mine.yaml:3:57: tenants[0].load.speed: 0 is out of range; write 0.001 to 1000"},
		{good, "one.csv, workers: 3", "mine.yaml:3:59: tenants[0].load.workers: has no meaning for a load that is trace; remove it"},
		{good, "one.csv}, cost: {mean: 5", "mine.yaml:3:51: tenants[0].cost: has no meaning beside a load whose calls come from a file; remove it"},
	} {
		if _, got := recorded(t, c.one, good, c.a, "two.csv"); got != c.want {
			t.Errorf("%s of %q:\n got %s\nwant %s", c.a, c.one, got, c.want)
		}
	}
	_, err := Parse("mine.yaml", []byte("tenants: [{name: a, load: {kind: absent}}]\nevents: [{at: 1s, tenant: a, load: {kind: trace, file: ../testdata/morning.csv, columns: {time: when, input: prompt, output: answer}}}]"))
	if want := "mine.yaml:2:30: events[0].load: takes its calls from a file, which only the load of a tenant can; write it there"; err == nil || err.Error() != want {
		t.Errorf("an event: got %v\nwant %s", err, want)
	}
}
