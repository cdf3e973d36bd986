package admin

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/llmgov/llmgov/internal/lib/jsonscan"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/tenants"
	"github.com/llmgov/llmgov/tenants/keyfile"
)

// keyRequest is a key to be made and, unless the caller brought its hash, the key itself.
type keyRequest struct {
	keyfile.Entry
	clear string
}

// maxKeyRequest is the largest body of a request for a key, in bytes.
const maxKeyRequest = 64 << 10

// readKeyRequest reads a request for a key, and makes the key.
func readKeyRequest(w http.ResponseWriter, r *http.Request, now time.Time) (*keyRequest, error) {
	var said struct {
		Tenant    string `json:"tenant"`
		Name      string `json:"name"`
		Expires   string `json:"expires"`
		ExpiresIn string `json:"expires_in"`
		Hash      string `json:"hash"`
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxKeyRequest))
	if err == nil {
		err = jsonscan.Decode(body, &said)
	}
	if err != nil {
		return nil, adminapi.BadRequest("The body does not describe a key: " + err.Error() + `. Send {"tenant": "acme", "name": "ci"}, and if need be expires, expires_in or hash.`)
	}
	k := &keyRequest{Entry: keyfile.Entry{Tenant: said.Tenant, Created: now.UTC().Truncate(time.Second)}}
	k.Name = said.Name
	if said.Tenant == "" {
		return nil, adminapi.BadRequest("tenant is missing; name the tenant or team of the key.")
	}
	if err := keyfile.CheckName(said.Name); err != nil {
		return nil, adminapi.BadRequest(err.Error())
	}
	k.Expires, err = keyExpiry(said.Expires, said.ExpiresIn, now)
	if err != nil {
		return nil, err
	}
	if said.Hash == "" {
		label := said.Name
		if keyfile.CheckLabel(label) != nil {
			label = "key"
		}
		k.clear = keyfile.NewKey(label)
		k.Hash = tenants.HashKey(k.clear)
		return k, nil
	}
	var ok bool
	k.Hash, ok = keyfile.ParseHash(said.Hash)
	if !ok {
		return nil, adminapi.BadRequest("hash (not shown) is not sha256: and 64 lower-case hexadecimal digits; make one with llmgov keys hash, or leave it out to get a new key.")
	}
	return k, nil
}

// keyExpiry is when a key expires: at a time, or after a duration; the zero time is never.
func keyExpiry(at, in string, now time.Time) (time.Time, error) {
	var end time.Time
	switch {
	case at != "" && in != "":
		return end, adminapi.BadRequest("expires and expires_in both set the end of the key. Send one of them.")
	case at != "":
		var err error
		end, err = time.Parse(time.RFC3339, at)
		if err != nil {
			return end, adminapi.BadRequest("expires: " + strconv.Quote(at) + " is not a time; write one such as 2027-01-31T00:00:00Z.")
		}
	case in != "":
		d, err := time.ParseDuration(in)
		if err != nil {
			return end, adminapi.BadRequest("expires_in: " + strconv.Quote(in) + " is not a duration; write one such as 720h.")
		}
		end = now.Add(d)
	default:
		return end, nil
	}
	end = end.UTC().Truncate(time.Second)
	if end.Year() > 9999 {
		return end, adminapi.BadRequest("The key would end after the year 9999. Leave it out for a key that does not expire.")
	}
	if !end.After(now) {
		return end, adminapi.BadRequest("The key would have expired at " + end.Format(time.RFC3339) + ". Write a time in the future.")
	}
	return end, nil
}
