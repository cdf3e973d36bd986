package adminapi

// ErrorAnswer is the body of an answer with an error.
type ErrorAnswer struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}
