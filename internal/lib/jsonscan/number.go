package jsonscan

// number reads a number: -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?
func (s *Scanner) number() Token {
	b := s.body
	i := s.at
	if i < len(b) && b[i] == '-' {
		i++
	}
	whole := i
	i = digits(b, i)
	if i == whole || b[whole] == '0' && i > whole+1 {
		return s.invalid()
	}
	if i < len(b) && b[i] == '.' {
		fraction := i + 1
		i = digits(b, fraction)
		if i == fraction {
			return s.invalid()
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		exponent := i
		i = digits(b, exponent)
		if i == exponent {
			return s.invalid()
		}
	}
	t := Token{Kind: Number, Start: s.at, End: i}
	s.at = i
	s.state = behindValue
	return t
}

// digits is the index behind the digits at i.
func digits(b []byte, i int) int {
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	return i
}
