package tenants

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"pgregory.net/rapid"
)

// TestKeys_Mapping reads keys in both forms: a day is good to its end in the config's zone, whatever the hour there.
func TestKeys_Mapping(t *testing.T) {
	s := testkit.Must(loadSections(map[string]string{
		"llmgov.yaml": goodConfig + "timezone: America/New_York\n",
		"tenants/a.yaml": "tenants:\n  acme:\n    keys:\n      - " + key1 + "\n      - {hash: " + key2 +
			", name: ci, expires: 2027-03-13}\n      - {hash: " + key3 + ", expires: 2027-01-31T18:00:00+01:00}\n",
	}))(t)
	want := []Key{
		{Hash: hash(t, key1)},
		{Hash: hash(t, key2), Name: "ci", Expires: time.Date(2027, 3, 14, 5, 0, 0, 0, time.UTC)}, // the night clocks go ahead
		{Hash: hash(t, key3), Expires: time.Date(2027, 1, 31, 17, 0, 0, 0, time.UTC)},
	}
	if diff := cmp.Diff(want, s.Tenants()[0].Keys); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	end := want[1].Expires
	if k := &s.Tenants()[0].Keys[1]; k.Expired(end.Add(-1)) || !k.Expired(end) {
		t.Error("want the key good until its instant, and no longer")
	}
	if k := &s.Tenants()[0].Keys[0]; k.Expired(end.AddDate(900, 0, 0)) {
		t.Error("a key without an end has expired")
	}
}

// TestKeys_Members: keys with limits are told apart, and others only where the tenant says so.
func TestKeys_Members(t *testing.T) {
	for members, want := range map[string]string{"": "acme/~key:ci acme/~ acme/~ acme/~", "members: {by: key}, ": "acme/~key:ci acme/~key:web acme/~key:sub:ann acme/~"} {
		s := testkit.Must(loadSections(map[string]string{
			"llmgov.yaml":    goodConfig,
			"tenants/a.yaml": "tenants: {acme: {" + members + "keys: [{hash: " + key1 + ", name: ci, rpm: 2}, {hash: " + key2 + ", name: web}, " + key3 + "]}}\n",
		}))(t)
		acme, _ := s.TenantByName("acme")
		if got := acme.Counted("ci") + " " + acme.Counted("web") + " " + acme.Counted("sub:ann") + " " + acme.Counted(""); got != want {
			t.Errorf("with %q they count as %s, want %s", members, got, want)
		}
	}
}

// TestKeys_LastDay: a key is good until its last day is over, also where clocks go ahead or back at midnight.
func TestKeys_LastDay(t *testing.T) {
	for zone, days := range map[string][]string{
		"UTC":              {"2028-02-29", "2027-12-31"},
		"America/New_York": {"2027-03-14", "2027-11-07"},
		"America/Santiago": {"2027-09-04", "2027-09-05", "2027-04-03", "2027-04-04"},
		"America/Havana":   {"2027-03-13", "2027-03-14", "2027-11-06", "2027-11-07"},
		"Africa/Cairo":     {"2027-04-29", "2027-04-30", "2027-10-28", "2027-10-29"},
		"Pacific/Apia":     {"2011-12-29", "2011-12-31"}, // there was no 30th
	} {
		place := testkit.Must(time.LoadLocation(zone))(t)
		for _, day := range days {
			s := testkit.Must(loadSections(map[string]string{
				"llmgov.yaml":    goodConfig + "timezone: " + zone + "\n",
				"tenants/a.yaml": "tenants: {acme: {keys: [{hash: " + key1 + ", expires: " + day + "}]}}\n",
			}))(t)
			noon, _ := time.Parse(time.DateOnly, day)
			want := noon.Add(-24 * time.Hour) // before the day, wherever
			for want.In(place).Format(time.DateOnly) <= day {
				want = want.Add(15 * time.Minute)
			}
			if got := s.Tenants()[0].Keys[0].Expires; !got.Equal(want) {
				t.Errorf("%s in %s ends at %v, want %v", day, zone, got.In(place), want.In(place))
			}
		}
	}
}

// TestBuild_Keys holds keys made in code to the rules of files.
func TestBuild_Keys(t *testing.T) {
	_, err := Build(configOf([]string{"m"}), []Tenant{{Name: "a", Keys: []Key{
		{Hash: HashKey("1"), Name: "ci"}, {Hash: HashKey("2"), Name: "ci", Expires: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)},
	}}})
	for _, want := range []string{`tenants.a.keys[1].name: "ci" also names the key at an earlier place`, "tenants.a.keys[1]: expires in year 9999"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestKeyTable_Oracle finds what a map would, also among hashes that begin alike.
func TestKeyTable_Oracle(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		hash := rapid.Custom(func(rt *rapid.T) (h KeyHash) {
			h[0], h[7], h[31] = rapid.Byte().Draw(rt, "low")%4, rapid.Byte().Draw(rt, "high")%2, rapid.Byte().Draw(rt, "last")%8
			return h
		})
		all := rapid.SliceOfNDistinct(hash, 0, 60, rapid.ID).Draw(rt, "keys")
		want := map[KeyHash]int{}
		table := newKeyTable(len(all))
		for i, h := range all {
			want[h] = i % 3
			table.put(keyAt{i % 3, &Key{Hash: h}})
		}
		for range 50 {
			h := hash.Draw(rt, "asked")
			at, there := want[h]
			if s := table.slot(&h); s.used != there || there && (s.at.tenant != at || s.at.key.Hash != h) {
				rt.Fatalf("%s: found %+v, want %+v, %v", h, *s, at, there)
			}
		}
	})
}
