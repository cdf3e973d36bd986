package objects

import "time"

// writeInLocked makes sure that what is pending will be written.
func (s *Store) writeInLocked(d time.Duration) {
	if s.timer != nil {
		return
	}
	s.writing.Add(1)
	s.timer = time.AfterFunc(d, func() {
		defer s.writing.Done()
		err := s.write()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.timer = nil
		if err != nil {
			s.log.Error("the owners of responses cannot be written", "error", err.Error())
		}
		if len(s.fading) > 0 && !s.closed {
			again := writeWithin
			if err != nil {
				again = 10 * time.Second
			}
			s.writeInLocked(again)
		}
	})
}

// write writes what is pending.
func (s *Store) write() error {
	s.mu.Lock()
	group := make(map[Key]Entry, len(s.fading))
	for key, e := range s.fading {
		group[key] = e
	}
	s.mu.Unlock()
	if err := s.disk.putAll(group); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, e := range group {
		if s.fading[key] == e {
			delete(s.fading, key)
		}
	}
	return nil
}
