package head

import "fmt"

// Error says why a body or query is refused. Param names the field, if it is in one.
type Error struct{ Param, Message string }

func (e *Error) Error() string { return e.Message }

func bad(param, format string, args ...any) *Error {
	return &Error{param, fmt.Sprintf(format, args...)}
}
