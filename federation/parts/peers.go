package parts

// peers are, by the name of a limit, what members have of it, in their order. There may be thousands of
// names, so that they are looked up once a beat.
type peers map[string][]peer

type peer struct {
	m *Member
	*Hold
}

// peers are those of the limits that a beat tells of. They hold until members or their holds come or go.
func (a *Account) peers(b *Beat) peers {
	of := make(peers, len(b.Claims))
	for _, c := range b.Claims {
		of[c.Name] = make([]peer, 0, len(a.Members))
	}
	for i := range a.Members {
		m := &a.Members[i]
		for k := range m.Holds {
			h := &m.Holds[k]
			if list, told := of[h.Name]; told {
				of[h.Name] = append(list, peer{m, h})
			}
		}
	}
	return of
}
