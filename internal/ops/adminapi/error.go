package adminapi

// ErrorAnswer is the body of an answer with an error.
type ErrorAnswer struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// Fault is an error that the admin API answers with a status and an ErrorAnswer.
type Fault struct {
	Status  int
	Code    string
	Message string
}

func (f *Fault) Error() string { return f.Message }

// BadRequest is the fault of a request that cannot be understood.
func BadRequest(message string) *Fault {
	return &Fault{Status: 400, Code: "invalid_request_error", Message: message}
}

// RequestNotFound is the code of the Fault that a request is none of the last refusals.
const RequestNotFound = "request_not_found"
