package claims

import (
	"strconv"

	"github.com/llmgov/llmgov/escrow/slots"
	"github.com/llmgov/llmgov/federation/parts"
)

// claimBands adds the claims on the slots that calls of lower bands may begin in. All calls count, of whatever band.
func (s *Slots) claimBands(d *slots.Demand) {
	s.bands = d.Bands
	for _, b := range d.Bands {
		name := "priority " + strconv.Itoa(b.Below) + " below the highest"
		c := roomClaim(d, name, b.Slots, d.Running, b.Waiting)
		if b.Calls == 0 { // room for the first is enough
			c.Want -= c.Spare
			c.Spare = min(c.Spare, 1)
			c.Want += c.Spare
		}
		s.claims = append(s.claims, c)
	}
}

// bandGrants are the grants in the answers to these claims.
func (s *Slots) bandGrants(list []parts.Part) (grants []slots.BandGrant) {
	for i, part := range list {
		grants = append(grants, slots.BandGrant{Below: s.bands[i].Below, Slots: part.Part})
	}
	return grants
}
