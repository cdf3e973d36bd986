package admin

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/tenants"
	"github.com/llmgov/llmgov/tenants/keyfile"
)

// keyFileError is the answer when the key file could not be changed.
func keyFileError(err error) *adminapi.Fault {
	_, damaged := errors.AsType[tenants.Problems](err)
	switch {
	case damaged:
		return &adminapi.Fault{Status: http.StatusConflict, Code: "keys_file_damaged", Message: "The key file is damaged, so it was not changed. Fix it: " + err.Error()}
	case errors.Is(err, keyfile.ErrTaken):
		return &adminapi.Fault{Status: http.StatusConflict, Code: "key_exists", Message: "A key of this hash is in the key file already. Make another key."}
	case errors.Is(err, keyfile.ErrRevoked):
		return &adminapi.Fault{Status: http.StatusConflict, Code: "key_revoked", Message: "The key of this hash was revoked, and stays so. Make another key."}
	}
	return &adminapi.Fault{Status: http.StatusInternalServerError, Code: "keys_file_failed", Message: fmt.Sprintf("The key file could not be changed: %v.", err)}
}

// notInForce is the answer when a change was written to the file but is not in force here.
func notInForce(written string, err error) *adminapi.Fault {
	if err == nil {
		err = errors.New("the policy or keys_file was changed at the same time")
	}
	return &adminapi.Fault{Status: http.StatusInternalServerError, Code: "not_in_force", Message: fmt.Sprintf("%s, but is not in force here yet: %v.", written, err)}
}
