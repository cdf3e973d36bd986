package gateway

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/llmgov/llmgov/tenants"
)

// keyFileError explains why the key file was not changed.
func keyFileError(err error) *adminError {
	_, damaged := errors.AsType[tenants.Problems](err)
	switch {
	case damaged:
		return &adminError{http.StatusConflict, "keys_file_damaged", "The key file is not as llmgov writes it, so it was not changed. Mend it: " + err.Error()}
	case errors.Is(err, tenants.ErrKeyTaken):
		return &adminError{http.StatusConflict, "key_exists", "A key of this hash is in the key file already. Make another key."}
	case errors.Is(err, tenants.ErrKeyRevoked):
		return &adminError{http.StatusConflict, "key_revoked", "The key of this hash was revoked, and stays so. Make another key."}
	}
	return &adminError{http.StatusInternalServerError, "keys_file_failed", fmt.Sprintf("The key file could not be changed: %v.", err)}
}

// notInForce says that a change was written to the file but does not count here yet.
func notInForce(what string, err error) *adminError {
	if err == nil {
		err = errors.New("the policy or keys_file was changed at the same time")
	}
	return &adminError{http.StatusInternalServerError, "not_in_force", fmt.Sprintf("%s, but does not count here yet: %v.", what, err)}
}
