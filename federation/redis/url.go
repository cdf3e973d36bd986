package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/llmgov/llmgov/internal/lib/certs"
)

const (
	// connections are few: a pool has one beat under way at a time, and tenants' limits are
	// told of in batches. Calls that ask have others, or beats would wait for them.
	connections    = 8
	askConnections = 32
	connectTimeout = time.Second
	// answerTimeout is for who sets no deadline: the context of a beat bounds it closer.
	answerTimeout = 5 * time.Second
)

// address is what a URL says. Its errors do not show the URL, which may hold a password.
type address struct {
	hosts             []string
	user, password    string
	db                int
	cluster, sentinel bool
	// of Sentinel
	master                         string
	sentinelUser, sentinelPassword string
	tls                            *tls.Config
	// for how long connections and answers are waited for
	connect, answer time.Duration
}

// errReserved is of a password that ends where the host should begin. What follows it is
// not shown.
var errReserved = errors.New("the address has an @ behind its host: write / and ? of a password as %2F and %3F")

const (
	defaultPort  = "6379"
	sentinelPort = "26379"
)

// parse reads one of
//
//	redis://user:password@host:6379/0             one server; rediss:// is with TLS
//	redis://user:password@host:6379,host:6379     a cluster; one host is one with ?cluster=true
//	redis+sentinel://user:password@host:26379,host:26379/0?master=NAME
//
// With TLS ca, cert and key are files, and server_name is whom certificates are of, if not the
// host. With Sentinel sentinel_user and sentinel_password are its own.
func parse(text string) (*address, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("the address is not a URL")
	}
	a := &address{user: u.User.Username(), connect: connectTimeout, answer: answerTimeout}
	a.password, _ = u.User.Password()
	scheme, sentinel := strings.CutSuffix(u.Scheme, "+sentinel")
	a.sentinel = sentinel
	if scheme != "redis" && scheme != "rediss" {
		return nil, fmt.Errorf("%s:// is not a scheme of Redis", u.Scheme)
	}
	q := u.Query()
	port := defaultPort
	if sentinel {
		port = sentinelPort
	}
	a.hosts, err = hosts(u.Host, port)
	if err != nil {
		return nil, err
	}
	a.cluster = !sentinel && (len(a.hosts) > 1 || q.Get("cluster") == "true")
	if strings.Contains(u.Path, "@") {
		return nil, errReserved
	}
	if db := strings.Trim(u.Path, "/"); db != "" {
		a.db, err = strconv.Atoi(db)
		if err != nil || a.db < 0 {
			return nil, fmt.Errorf("/%s is not the number of a database", db)
		}
	}
	if a.db > 0 && a.cluster {
		return nil, errors.New("a cluster has database 0 only")
	}
	a.master = q.Get("master")
	if sentinel != (a.master != "") {
		return nil, errors.New("redis+sentinel:// and ?master=NAME belong together")
	}
	a.sentinelUser = q.Get("sentinel_user")
	a.sentinelPassword = q.Get("sentinel_password")
	if scheme == "rediss" {
		a.tls, err = certs.Load(q.Get("ca"), q.Get("cert"), q.Get("key"))
		if err != nil {
			return nil, err
		}
		a.tls.ServerName = q.Get("server_name")
	}
	return a, a.unknown(q)
}

// unknown complains of a parameter that says nothing here.
func (a *address) unknown(q url.Values) error {
	known := []string{"cluster", "master"}
	if a.sentinel {
		known = append(known, "sentinel_user", "sentinel_password")
	}
	if a.tls != nil {
		known = append(known, "ca", "cert", "key", "server_name")
	}
	for name := range q {
		if strings.Contains(name, "@") {
			return errReserved
		}
		if !slices.Contains(known, name) {
			return fmt.Errorf("?%s= says nothing in this address; it may have %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// hosts are those of a list with commas, each with a port.
func hosts(list, port string) (out []string, err error) {
	for h := range strings.SplitSeq(list, ",") {
		if _, _, err := net.SplitHostPort(h); err != nil {
			h = net.JoinHostPort(strings.Trim(h, "[]"), port)
		}
		if host, _, _ := net.SplitHostPort(h); host == "" {
			return nil, errors.New("a host is missing in the address")
		}
		out = append(out, h)
	}
	return out, nil
}

// quiet is the library's log: what goes wrong is in the errors.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

var silence = sync.OnceFunc(func() { redis.SetLogger(quiet{}) })

// client is what speaks to the servers. It sends nothing again, keeps to the deadlines of
// contexts, and asks primaries only.
func (a *address) client(connections int) redis.UniversalClient {
	silence()
	o := &redis.UniversalOptions{
		Addrs: a.hosts, MasterName: a.master, Username: a.user, Password: a.password, DB: a.db, TLSConfig: a.tls,
		SentinelUsername: a.sentinelUser, SentinelPassword: a.sentinelPassword,
		MaxRetries: -1, ContextTimeoutEnabled: true,
		DialTimeout: a.connect, DialerRetries: 1, ReadTimeout: a.answer, WriteTimeout: a.answer,
		PoolSize: connections, PoolTimeout: a.answer,
		// What servers need not know costs rights.
		DisableIdentity: true, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	switch {
	case a.sentinel:
		return redis.NewFailoverClient(o.Failover())
	case a.cluster:
		c := o.Cluster()
		c.DisableRoutingPolicies = true // scripts go to where their key is, and COMMAND need not be asked
		return redis.NewClusterClient(c)
	}
	return redis.NewClient(o.Simple())
}
