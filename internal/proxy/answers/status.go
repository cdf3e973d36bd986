package answers

// Passes reports whether an answer with this status may be passed on. Inference has no use for a
// redirect: a client that followed it would hand its key and its prompt to another host. Statuses
// outside of HTTP's range cannot be written at all.
func Passes(status int) bool {
	return status >= 200 && status < 300 || status >= 400 && status < 600
}

// Redirects reports whether a status sends the caller elsewhere.
func Redirects(status int) bool { return status >= 300 && status < 400 }
