package main

import (
	"bufio"
	"cmp"
	"fmt"
	"net/http"
	neturl "net/url"
	"os"
	"strings"
	"time"

	"github.com/llmgov/llmgov/cmd/llmgov/report"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/tenants"
	"github.com/llmgov/llmgov/tenants/keyfile"
)

type keysCmd struct {
	New    keysNewCmd    `cmd:"" help:"Make a key. The key is shown once; only its hash goes into a policy file, or, with --tenant, to a running gateway."`
	List   keysListCmd   `cmd:"" help:"List the keys of a running gateway, without the keys themselves."`
	Revoke keysRevokeCmd `cmd:"" help:"Have a running gateway accept a key no more."`
	Hash   keysHashCmd   `cmd:"" help:"Print the hash of a key: of the argument, or of the line on standard input."`
}

func (keysCmd) Help() string { return `Example: llmgov keys new acme` }

type keysNewCmd struct {
	Name      string        `arg:"" optional:"" help:"Part of the key, to distinguish keys. Default: key."`
	Tenant    string        `placeholder:"NAME" help:"Have a running gateway accept the key at once, as one of this tenant or team. It keeps the hash in its keys_file."`
	ExpiresIn time.Duration `placeholder:"DURATION" help:"The time after which the key is not accepted any more, such as 720h; with --tenant."`
	asking
}

func (keysNewCmd) Help() string {
	return `Example: llmgov keys new acme
         llmgov keys new ci --tenant acme/search --expires-in 720h`
}

func (k keysNewCmd) Run(e *env) error {
	if k.Name != "" {
		if err := keyfile.CheckLabel(k.Name); err != nil {
			return &usageError{err.Error()}
		}
	}
	if k.Tenant == "" {
		if k.ExpiresIn != 0 || k.asking != (asking{}) {
			return &usageError{"--expires-in, --admin and -c are for a key that a running gateway is told of; name its tenant with --tenant"}
		}
		key := keyfile.NewKey(cmp.Or(k.Name, "key"))
		return printKey(e, key, tenants.HashKey(key).String())
	}
	asked := map[string]string{"tenant": k.Tenant, "name": k.Name}
	if k.ExpiresIn != 0 {
		asked["expires_in"] = k.ExpiresIn.String()
	}
	var made adminapi.CreatedKey
	if _, err := k.ask(e, http.MethodPost, "/api/v1/keys", asked, &made); err != nil {
		return err
	}
	return printKey(e, made.Key, made.Hash)
}

func printKey(e *env, key, hash string) error {
	_, err := fmt.Fprintf(e.stdout, "key   %s\nhash  %s\n", key, hash)
	return err
}

type keysListCmd struct {
	Tenant string `placeholder:"NAME" help:"Only the keys of this tenant or team."`
	asking
	JSON bool `name:"json" help:"Print one JSON object instead of a table."`
}

func (keysListCmd) Help() string { return `Example: llmgov keys list --tenant acme` }

func (k keysListCmd) Run(e *env) error {
	path := "/api/v1/keys"
	if k.Tenant != "" {
		path += "?" + neturl.Values{"tenant": {k.Tenant}}.Encode()
	}
	var list adminapi.KeyList
	if _, err := k.ask(e, http.MethodGet, path, nil, &list); err != nil {
		return err
	}
	if k.JSON {
		return writeJSON(e, list)
	}
	rows := [][]string{{"ID", "TENANT", "NAME", "SOURCE", "STATUS", "CREATED", "EXPIRES", "LAST USED HERE"}}
	for _, key := range list.Keys {
		status := key.Status
		if key.Expired {
			status = "expired"
		}
		rows = append(rows, []string{key.ID, key.Tenant, cmp.Or(key.Name, "-"), key.Source, status, moment(key.Created), moment(key.Expires), moment(key.LastUsedAt)})
	}
	_, err := fmt.Fprint(e.stdout, report.Aligned(rows))
	return err
}

// moment is a time in a table.
func moment(at *time.Time) string {
	if at == nil {
		return "-"
	}
	return at.UTC().Format(time.RFC3339)
}

type keysRevokeCmd struct {
	Key string `arg:"" help:"The key's ID, as keys list shows it, or its hash, or the key itself, of which only the hash is sent."`
	asking
}

func (keysRevokeCmd) Help() string { return `Example: llmgov keys revoke key_70f40fa5a0d91ea3` }

func (k keysRevokeCmd) Run(e *env) error {
	ref := k.Key
	if !strings.HasPrefix(ref, keyfile.IDPrefix) && !strings.HasPrefix(ref, keyfile.HashPrefix) {
		ref = tenants.HashKey(ref).String()
	}
	var gone adminapi.RevokedKey
	if _, err := k.ask(e, http.MethodDelete, "/api/v1/keys/"+neturl.PathEscape(ref), nil, &gone); err != nil {
		return err
	}
	_, err := fmt.Fprintf(e.stdout, "Revoked %s of tenant %s, at %s. New calls with it are refused.\n", gone.ID, cmp.Or(gone.Tenant, "-"), moment(&gone.Revoked))
	return err
}

type keysHashCmd struct {
	Key  string `arg:"" optional:"" help:"The key. Default: read from standard input, which keeps it out of the shell's history."`
	Weak bool   `help:"Hash the key even if it could be guessed from its hash. For keys that you cannot change."`
}

func (keysHashCmd) Help() string { return `Example: llmgov keys hash <acme.key` }

func (k keysHashCmd) Run(e *env) error {
	if k.Key == "" {
		line, err := bufio.NewReader(os.Stdin).ReadString('\n')
		k.Key = strings.TrimRight(line, "\r\n")
		if k.Key == "" {
			return &usageError{fmt.Sprintf("there is no key to hash (%v)", err)}
		}
	}
	if err := keyfile.CheckStrength(k.Key); err != nil && !k.Weak {
		return fmt.Errorf("%w, or add --weak if you cannot change it", err)
	}
	fmt.Fprintln(e.stdout, tenants.HashKey(k.Key))
	return nil
}
