package tenants

// defaultWeights weighs the upstreams of a pool that have no weight: by their tpm, if each upstream of their order has a tpm and none a
// weight, so that all are used up at the same time; else they have 1.
func (p *Pool) defaultWeights() {
	orders := map[int64][]*PoolUpstream{}
	for i := range p.Upstreams {
		u := &p.Upstreams[i]
		orders[u.Order] = append(orders[u.Order], u)
	}
	for _, list := range orders {
		weighByTPM(list)
		for _, u := range list {
			u.Weight = max(u.Weight, 1)
		}
	}
}

// weighByTPM gives the upstreams of one order weights in proportion to their tpm, as small as they can be; none, if one has no tpm, or has
// a weight.
func weighByTPM(list []*PoolUpstream) {
	unit := int64(0)
	largest := int64(0)
	for _, u := range list {
		if u.Weight > 0 || u.TPM <= 0 {
			return
		}
		unit = commonDivisor(unit, u.TPM)
		largest = max(largest, u.TPM)
	}
	for _, u := range list {
		u.Weight = u.TPM / unit
		if most := largest / unit; most > maxUpstreamWeight {
			u.Weight = max(1, u.Weight*maxUpstreamWeight/most)
		}
	}
}

// commonDivisor is the greatest common divisor of two numbers; of 0 and another it is the other.
func commonDivisor(a, b int64) int64 {
	for b != 0 {
		rest := a % b
		a = b
		b = rest
	}
	return a
}
