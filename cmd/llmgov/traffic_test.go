package main

import (
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// Acts show what their captions say: there is room for everybody, then for everybody but one tenant, and then a heavier one
// asks for less than its share beside it.
func TestActs(t *testing.T) {
	weights := map[string]int64{}
	for _, tenant := range demoTenants {
		weights[tenant.Name] = int64(tenant.Weight)
	}
	const room = demoTPM / 60 // tokens a second
	var all []float64         // what each act asks for, as a part of the room
	for _, a := range acts {
		asked := 0.0
		for _, d := range a.demands {
			asked += d.tokens()
		}
		all = append(all, asked/room)
	}
	if all[0] > 0.5 || all[1] < 1.5 || all[2] < 1.5 {
		t.Errorf("the acts ask for %.2f of the pool; want a half at most, then one and a half at least", all)
	}
	if share := room * float64(weights["enterprise"]) / float64(weights["enterprise"]+weights["pro"]+weights["free"]); heavyEnterprise.tokens() > share || heavyEnterprise.tokens() < share*0.6 {
		t.Errorf("enterprise asks for %.0f tokens a second in the last act; want most of its share of %.0f", heavyEnterprise.tokens(), share)
	}
}

// A demo has no caption before it begins, nor has a gateway without one.
func TestDemo_Caption(t *testing.T) {
	var none *demo
	begun := &demo{}
	begun.caption.Store(&acts[1].caption)
	got := []string{none.now(), new(demo).now(), begun.now()}
	testkit.Same(t, []string{"", "", acts[1].caption}, got, "captions")
}

// tokens is how many of them the demand takes in a second, on average.
func (d demand) tokens() float64 { return d.perSecond * float64(d.prompt+meanOutput) }
