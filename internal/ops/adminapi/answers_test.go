package adminapi

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

var update = flag.Bool("update", false, "write testdata/answers.golden anew")

// Names, order and omission of all fields stay, because scripts and dashboards rely on them. A new
// field is an addition to the golden file, and no other line of it may change.
func TestAnswersKeepTheirFields(t *testing.T) {
	var got strings.Builder
	for _, answer := range []any{
		new(Snapshot), new(TenantList), new(FairnessList), new(LeaseList), new(History), new(Policy), new(Explanation), new(Event),
		new(KeyList), new(CreatedKey), new(RevokedKey), new(Reloaded), new(ProblemList), new(ErrorAnswer), new(Spend),
	} {
		v := reflect.ValueOf(answer).Elem()
		empty := indented(t, answer)
		fields := filler{}
		fields.fill(v)
		fmt.Fprintf(&got, "# %s\n%s\n# %[1]s, empty\n%[3]s\n", v.Type().Name(), indented(t, answer), empty)
	}
	const golden = "testdata/answers.golden"
	if *update {
		testkit.OK(t, os.WriteFile(golden, []byte(got.String()), 0o600))
	}
	want := testkit.Must(os.ReadFile(golden))(t)
	testkit.Same(t, string(want), got.String(), "answers")
}

func indented(t *testing.T, v any) []byte {
	t.Helper()
	return testkit.Must(json.MarshalIndent(v, "", "  "))(t)
}

// filler gives each field a value of its own.
type filler struct{ n int }

func (f *filler) fill(v reflect.Value) {
	f.n++
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Unix(1_800_000_000+int64(f.n), 0).UTC()))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		f.fill(v.Index(0))
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		f.fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), value)
	case reflect.String:
		v.SetString(fmt.Sprint("text ", f.n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(f.n))
	case reflect.Uint32:
		v.SetUint(uint64(f.n))
	case reflect.Float64:
		v.SetFloat(float64(f.n) + 0.5)
	case reflect.Interface:
		v.Set(reflect.ValueOf(f.n))
	default:
		panic("no value for " + v.Type().String())
	}
}
