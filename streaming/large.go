package streaming

// maxUsage is the default size of the largest usage object that is kept.
const maxUsage = 64 << 10

// large reads an event that is too large to be kept, piece by piece: the usage in it, and what it
// is. An answer with an image in it ends in such an event.
type large struct {
	find finder
	line linePart
	at   int // bytes of the field name that were matched
}

// linePart says where in a line the reader stands.
type linePart uint8

const (
	fieldName  linePart = iota // in a line that may be data
	valueStart                 // behind its colon
	value                      // in its value
	otherLine                  // in a line that is not data
)

const dataField = "data:"

func newLarge() *large {
	return &large{find: finder{limit: maxUsage, envelopes: true}}
}

// feed reads the next piece of the raw event. The values of data lines go to the finder as they
// are: the line ends between them are white space in JSON.
func (l *large) feed(p []byte) {
	eol := lineEnds{-1, -1}
	for i := 0; i < len(p); {
		switch l.line {
		case fieldName:
			i = l.match(p, i)
		case valueStart:
			l.line = value
			if p[i] == ' ' {
				i++
			}
		default:
			end := eol.next(p, i)
			if l.line == value {
				l.find.feed(p[i:end])
			}
			i = end
			if i < len(p) {
				l.line = fieldName
				l.at = 0
				i++
			}
		}
	}
}

// match compares one byte with the field name and returns the index of the next one to read.
func (l *large) match(p []byte, i int) int {
	if p[i] != dataField[l.at] {
		l.line = otherLine // which may end right here
		return i
	}
	l.at++
	if l.at == len(dataField) {
		l.line = valueStart
	}
	return i + 1
}
