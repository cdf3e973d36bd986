// Package identity finds the tenant of a JSON Web Token.
//
//	token ─► cache, by the hash of all of it ─► issuer ─► signature, audience, times ─► names of tenant and team ─► the policy
//
// What a token says is checked by go-oidc with the public keys of its issuer, and remembered as long as the token lasts. Whose it is, is looked up for
// each call, because policies change.
package identity

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/llmgov/llmgov/internal/lib/text"
	"github.com/llmgov/llmgov/tenants"
)

const (
	// mostRemembered is how many tokens are remembered. A token that is not is checked again.
	mostRemembered = 50_000
	// mostToken is the longest token that is looked at, in bytes.
	mostToken = 16 << 10
	// mostValues is how many values of one claim count.
	mostValues = 1000
	// patience is how long a call waits for an issuer.
	patience = 5 * time.Second
)

// Checker checks tokens by the policy's identity providers. It is safe for concurrent use.
type Checker struct {
	config  tenants.Identity
	issuers map[string]*issuer
	now     func() time.Time

	mu   sync.Mutex
	seen map[[sha256.Size]byte]claims
}

// claims are what a valid token says.
type claims struct {
	tenants, teams []string // names that it has a right to
	tiers          []string // one of which its tenant must be of; none is any
	groups         []string
	// key stands for it where calls with keys have theirs. It has the name of its subject.
	key *tenants.Key
}

// issuer is one identity provider.
type issuer struct {
	tenants.Issuer
	client *http.Client
	now    func() time.Time

	mu       sync.Mutex
	verifier *oidc.IDTokenVerifier // nil until its keys' place is known
}

// New returns a Checker; nil if there are no issuers. before, unless nil, is the one before a reload: it goes on if nothing has changed for it.
func New(config tenants.Identity, before *Checker) *Checker {
	switch {
	case len(config.Issuers) == 0:
		return nil
	case before != nil && reflect.DeepEqual(before.config, config):
		return before
	}
	return newChecker(config, time.Second, time.Now)
}

// newChecker returns a Checker that asks an issuer once in every so long.
func newChecker(config tenants.Identity, every time.Duration, now func() time.Time) *Checker {
	c := &Checker{config: config, issuers: map[string]*issuer{}, now: now, seen: map[[sha256.Size]byte]claims{}}
	for _, i := range config.Issuers {
		asks := &http.Client{Transport: &spaced{every: every, last: map[string]time.Time{}}, Timeout: patience}
		c.issuers[i.Issuer] = &issuer{Issuer: i, client: asks, now: now}
	}
	return c
}

// Errors of Who. Others are those of one token, and say for the log which claim failed.
var (
	// ErrNoToken says that a credential is no token of a known issuer, so that it may be a key that is not known.
	ErrNoToken = errors.New("no token of an issuer of the policy")
	// ErrExpired says that a token was valid.
	ErrExpired = errors.New("the token has expired")
)

// Who finds the tenant or team that a token is of in a policy, and what stands for the token as a key, with its subject as its name and its end.
// It may ask the issuer for its public keys. A nil Checker knows no tokens.
func (c *Checker) Who(ctx context.Context, policy *tenants.Snapshot, token string) (*tenants.Tenant, *tenants.Key, error) {
	said, err := c.check(ctx, token)
	if err != nil {
		return nil, nil, err
	}
	t, err := find(&c.config, policy, said)
	return t, said.key, err
}

// Groups returns the subject of a token, its issuer and the groups that it is in, whatever tenant it is of.
func (c *Checker) Groups(ctx context.Context, token string) (subject, issuer string, groups []string, err error) {
	said, err := c.check(ctx, token)
	if err != nil {
		return "", "", nil, err
	}
	return cmp.Or(said.key.Name, "somebody"), issuerOf(token), said.groups, nil
}

// check returns what a token says, if it is valid now.
func (c *Checker) check(ctx context.Context, token string) (claims, error) {
	if c == nil || len(token) > mostToken || strings.Count(token, ".") != 2 {
		return claims{}, ErrNoToken
	}
	hash := sha256.Sum256([]byte(token))
	c.mu.Lock()
	said, known := c.seen[hash]
	c.mu.Unlock()
	if !known {
		at := c.issuers[issuerOf(token)]
		if at == nil {
			return claims{}, ErrNoToken
		}
		var err error
		if said, err = at.verify(ctx, token, &c.config); err != nil {
			return claims{}, err
		}
		c.remember(hash, said)
	}
	if said.key.Expired(c.now()) {
		return claims{}, ErrExpired
	}
	return said, nil
}

func (c *Checker) remember(hash [sha256.Size]byte, said claims) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for old, other := range c.seen { // a few at a time, in no order
		if len(c.seen) < mostRemembered && !other.key.Expired(c.now()) {
			break
		}
		delete(c.seen, old)
	}
	c.seen[hash] = said
}

// issuerOf is the issuer that a token names, before anything of it is checked.
func issuerOf(token string) string {
	var named struct {
		Issuer string `json:"iss"`
	}
	if !decode(token, &named) {
		return ""
	}
	return named.Issuer
}

// decode reads the claims of a token.
func decode(token string, into any) bool {
	_, rest, _ := strings.Cut(token, ".")
	body, _, _ := strings.Cut(rest, ".")
	data, err := base64.RawURLEncoding.DecodeString(body)
	return err == nil && json.Unmarshal(data, into) == nil
}

// Claims are those of a token, before anything of it is checked.
func Claims(token string) (all map[string]any, ok bool) {
	ok = decode(token, &all)
	return all, ok
}

// Claim is the first value of a claim, named as in templates, of a token that Who has found to be valid; "" if there is none.
func Claim(token, name string) string {
	all, _ := Claims(token)
	return ValueOf(all, name)
}

// ValueOf is the same of claims.
func ValueOf(all map[string]any, name string) string {
	if values := fill("{"+name+"}", all); len(values) > 0 {
		return values[0]
	}
	return ""
}

// verify checks a token's signature, audience and times.
func (i *issuer) verify(ctx context.Context, token string, config *tenants.Identity) (claims, error) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, i.client), patience)
	defer cancel()
	verifier, err := i.ready(ctx)
	if err != nil {
		return claims{}, err
	}
	valid, err := verifier.Verify(ctx, token)
	if _, expired := errors.AsType[*oidc.TokenExpiredError](err); expired {
		return claims{}, ErrExpired
	}
	if err != nil {
		return claims{}, err
	}
	var all map[string]any
	if err := valid.Claims(&all); err != nil {
		return claims{}, err
	}
	said := read(config, all)
	said.key = &tenants.Key{Hash: tenants.HashKey(token), Name: text.Brief(valid.Subject), Expires: valid.Expiry.Add(i.Leeway)}
	return said, nil
}

// read reads the claims of a token.
func read(config *tenants.Identity, all map[string]any) claims {
	said := claims{tenants: fill(config.Tenant, all), groups: fill(cmp.Or(config.Groups, tenants.DefaultGroups), all)}
	if config.Team != "" {
		said.teams = fill(config.Team, all)
	}
	if _, claim, _ := tenants.Template(config.Tier); claim != nil && valueAt(all, claim) != nil {
		said.tiers = fill(config.Tier, all)
		if len(said.tiers) == 0 {
			said.tiers = []string{""} // which no tier is called
		}
	}
	return said
}

// ready returns the verifier. The issuer is asked where its keys are by the first token, and again by further ones until it has answered.
func (i *issuer) ready(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.verifier != nil {
		return i.verifier, nil
	}
	config := &oidc.Config{ClientID: i.Audience, SupportedSigningAlgs: i.Algorithms, Now: func() time.Time { return i.now().Add(-i.Leeway) }}
	switch {
	case i.ByURL():
		lasting := oidc.ClientContext(context.Background(), i.client) // its keys are asked for later, too
		i.verifier = oidc.NewVerifier(i.Issuer.Issuer, oidc.NewRemoteKeySet(lasting, i.JWKS), config)
	case i.JWKS != "":
		i.verifier = oidc.NewVerifier(i.Issuer.Issuer, static(i.Keys), config)
	default:
		provider, err := oidc.NewProvider(ctx, i.Issuer.Issuer)
		if err != nil {
			return nil, err
		}
		i.verifier = provider.Verifier(config)
	}
	return i.verifier, nil
}

// static are the keys of a file. Those of kinds that are not known are ignored (RFC 7517, 5).
func static(file string) oidc.KeySet {
	var set struct{ Keys []json.RawMessage }
	_ = json.Unmarshal([]byte(file), &set) // the loader has read it
	keys := &oidc.StaticKeySet{}
	for _, data := range set.Keys {
		var k jose.JSONWebKey
		if json.Unmarshal(data, &k) == nil && k.IsPublic() && k.Valid() {
			keys.PublicKeys = append(keys.PublicKeys, k.Key)
		}
	}
	return keys
}

// fill puts the values of a claim into a template.
func fill(template string, all map[string]any) (names []string) {
	before, claim, after := tenants.Template(template)
	at := valueAt(all, claim)
	list, several := at.([]any)
	if !several {
		list = []any{at}
	}
	for _, value := range list[:min(len(list), mostValues)] {
		if text, ok := value.(string); ok && text != "" {
			names = append(names, before+text+after)
		}
	}
	return names
}

// valueAt is a claim, from the outside in; nil if there is none. A name may have points in it, such as kubernetes.io.
func valueAt(at any, claim []string) any {
	inner, _ := at.(map[string]any)
	if len(claim) == 0 {
		return at
	}
	for i := range claim {
		if value, there := inner[strings.Join(claim[:i+1], ".")]; there {
			return valueAt(value, claim[i+1:])
		}
	}
	return nil
}

// find finds the first tenant of the policy that a token names, the first of its teams, and of these and the teams below the first of the tier.
func find(config *tenants.Identity, policy *tenants.Snapshot, said claims) (*tenants.Tenant, error) {
	t := first(policy, said.tenants)
	if t == nil {
		if config.Default == "" {
			return nil, fmt.Errorf("%s of the token%s is no tenant: %q", config.Tenant, said.whose(), said.tenants)
		}
		t, _ = policy.TenantByName(config.Default)
	} else if team := first(policy, below(t, said.teams)); team != nil {
		t = team
	}
	if len(said.tiers) == 0 {
		return t, nil
	}
	names := []string{t.Name}
	for list := policy.Tenants()[t.Index+1:]; len(list) > 0 && strings.HasPrefix(list[0].Name, t.Name); list = list[1:] { // "acme-2" may be before "acme/a"
		if strings.HasPrefix(list[0].Name, t.Name+"/") {
			names = append(names, list[0].Name)
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		is, _ := policy.TenantByName(name)
		return is.Tier == "" || !slices.Contains(said.tiers, is.Tier)
	})
	if is := first(policy, names); is != nil {
		return is, nil
	}
	return nil, fmt.Errorf("%s of the token%s is the tier neither of %s nor of a team of it: %q", config.Tier, said.whose(), t.Name, said.tiers)
}

// whose names the subject of a token, if it is known.
func (c *claims) whose() string {
	if c.key == nil {
		return ""
	}
	return fmt.Sprintf(" of %q", c.key.Name)
}

// below are the names of some teams of a tenant.
func below(t *tenants.Tenant, teams []string) []string {
	names := make([]string, len(teams))
	for i, team := range teams {
		names[i] = t.Name + "/" + team
	}
	return names
}

// Explain finds the tenant or team of a token with the claims, whatever its issuer and end, and says for people why it is that one.
func Explain(config *tenants.Identity, policy *tenants.Snapshot, all map[string]any) (*tenants.Tenant, string, error) {
	said := read(config, all)
	t, err := find(config, policy, said)
	if err != nil {
		return nil, "", err
	}
	why := named(policy, config.Tenant, said.tenants)
	if of := first(policy, said.tenants); of == nil {
		why = fmt.Sprintf("%s names no tenant, and identity.default is %s", config.Tenant, config.Default)
	} else if config.Team != "" {
		why += "; " + named(policy, config.Team, below(of, said.teams))
	}
	if config.Tier != "" && len(said.tiers) > 0 {
		why += fmt.Sprintf("; %s is %s", config.Tier, strings.Join(said.tiers, ", "))
	}
	return t, why, nil
}

// named says which tenants or teams of a policy a template names, and which of several counts.
func named(policy *tenants.Snapshot, template string, names []string) string {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return first(policy, []string{name}) == nil })
	switch len(names) {
	case 0:
		return template + " names none"
	case 1:
		return template + " names " + names[0]
	}
	return fmt.Sprintf("%s names %s, of which %s comes first in the policy", template, strings.Join(names, ", "), first(policy, names).Name)
}

// first is that of some tenants which the policy has first.
func first(policy *tenants.Snapshot, names []string) (found *tenants.Tenant) {
	for _, name := range names {
		t, known := policy.TenantByName(name)
		if known && (found == nil || t.Before(found)) {
			found = t
		}
	}
	return found
}

// spaced lets an issuer be asked at most once in every so long for each address, whatever tokens come. Whoever asks earlier waits, unless the
// turn is too late for that: turns that nobody takes would keep the issuer from being asked for as long as tokens come.
type spaced struct {
	every time.Duration

	mu   sync.Mutex
	last map[string]time.Time
}

func (s *spaced) RoundTrip(r *http.Request) (*http.Response, error) {
	at := r.URL.String()
	s.mu.Lock()
	turn := time.Now()
	if next := s.last[at].Add(s.every); turn.Before(next) {
		turn = next
	}
	if end, ends := r.Context().Deadline(); ends && !turn.Before(end) {
		s.mu.Unlock()
		return nil, context.DeadlineExceeded
	}
	s.last[at] = turn
	s.mu.Unlock()
	wait := time.NewTimer(time.Until(turn))
	defer wait.Stop()
	select {
	case <-wait.C:
		return http.DefaultTransport.RoundTrip(r)
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}
