package parts

// peers are what members have of limits, by the limit's name, in the order of the members. They are
// looked up once for each beat, since there may be thousands of names.
type peers map[string][]peer

type peer struct {
	m *Member
	*Hold
}

// peers lists those of the limits that a beat tells of. The list is valid until members or their
// holds come or go.
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
	if a.Lost {
		return of
	}
	for i := range a.Untold {
		h := a.Untold[i].hold(a.Born)
		if list, told := of[h.Name]; told {
			of[h.Name] = append(list, peer{nil, &h})
		}
	}
	return of
}
