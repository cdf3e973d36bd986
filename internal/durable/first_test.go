package durable

import (
	"testing"

	"github.com/llmgov/llmgov/governor"
)

// TestSegment_FirstRelease: a journal that the first release wrote is read.
func TestSegment_FirstRelease(t *testing.T) {
	var kinds []governor.RecordKind
	good, err := readSegment("testdata/first.journal", false, func(r *governor.Record) {
		kinds = append(kinds, r.Kind)
		if r.Tenant != "acme/search" || r.Pool != "gpt-4o" || r.Booked.Pool[0] != 1000 || r.Held.Unix() != 1_700_000_000 {
			t.Errorf("got %+v", r)
		}
		if r.Kind == governor.RecordEnded && (r.Took.Spend[0] != 60 || r.Ended.Unix() != 1_700_000_002) {
			t.Errorf("its end is %+v", r)
		}
	})
	if err != nil || good == 0 || len(kinds) != 4 {
		t.Errorf("%d bytes, records %v, %v", good, kinds, err)
	}
}
