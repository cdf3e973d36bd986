package tenants

// Reaches reports whether t may use any model that p serves. Two globs that
// could have a name in common count as having one.
func (s *Snapshot) Reaches(t *Tenant, p *Pool) bool {
	for _, grant := range t.Models {
		if !isGlob(grant) {
			if at, ok := s.routes.find(grant); ok && at == p.Index {
				return true
			}
			continue
		}
		for _, m := range p.Models {
			if overlap(grant, m) {
				return true
			}
		}
	}
	return false
}
