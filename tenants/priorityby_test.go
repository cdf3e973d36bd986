package tenants

import "testing"

// TestPriorityBy_Of: the header that a policy names lowers the priority of a call by its value, and no other says anything of it.
func TestPriorityBy_Of(t *testing.T) {
	by := &PriorityBy{Header: "X-Class", Below: map[string]int64{"main": 0, "side job": 5, "title": 10}}
	for _, c := range []struct {
		by      *PriorityBy
		headers map[string][]string
		want    int64
	}{
		{by, nil, 0},
		{by, map[string][]string{"X-Class": {"main"}}, 0},
		{by, map[string][]string{"X-Class": {"side job"}}, 5},
		{by, map[string][]string{"X-Class": {"title"}}, 10},
		{by, map[string][]string{"X-Class": {"main", "side job"}}, 5},
		{by, map[string][]string{"X-Class": {"Title"}, "X-Other": {"title"}}, 0},
		{nil, map[string][]string{"X-Class": {"title"}}, 0},
	} {
		if got := c.by.Of(c.headers); got != c.want {
			t.Errorf("%v is %d below the highest priority, want %d", c.headers, got, c.want)
		}
	}
	if got := by.String(); got != "x-class, main interactive, side job 4, title background" {
		t.Errorf("it is shown as %q", got)
	}
}
