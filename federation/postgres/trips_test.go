package postgres

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// counter is a way to a server that counts round trips: how often a client asks for an answer. How its bytes and those of the
// server are cut into pieces on the way does not count.
type counter struct {
	net.Listener
	server string

	mu    sync.Mutex
	trips int
	came  int // parts of answers, also of those that are kept

	answers sync.RWMutex // held by whoever keeps answers from coming back
}

// far opens a store by way of a counter.
func far(t *testing.T, direct string) (*Store, *counter) {
	t.Helper()
	way := testkit.Must(url.Parse(direct))(t)
	c := newCounter(t, way.Host)
	way.Host = c.Addr().String()
	return open(t, way.String()), c
}

func newCounter(t *testing.T, server string) *counter {
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	c := &counter{Listener: l, server: server}
	t.Cleanup(func() { l.Close() })
	go c.serve()
	return c
}

func (c *counter) serve() {
	for {
		client, err := c.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", c.server)
		if err != nil {
			client.Close()
			continue
		}
		var asks questions
		go c.pipe(client, server, func(piece []byte) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.trips += asks.count(piece)
		})
		go c.pipe(server, client, func([]byte) {
			c.mu.Lock()
			c.came++
			c.mu.Unlock()
			c.answers.RLock()
			defer c.answers.RUnlock()
		})
	}
}

// questions reads a client's side of PostgreSQL's protocol, in pieces of any size: messages of a type, a length of four bytes that
// counts itself, and a text. The first message has no type.
type questions struct {
	begun bool
	head  []byte // of a message that is not read whole
	rest  int    // of the text of a message
}

// count is how often the client asks for an answer in a piece: by its first message, by a query, and by a sync or a flush after others.
func (q *questions) count(piece []byte) (n int) {
	for len(piece) > 0 {
		skipped := min(q.rest, len(piece))
		q.rest -= skipped
		piece = piece[skipped:]
		if len(piece) == 0 {
			return n
		}
		q.head = append(q.head, piece[0])
		piece = piece[1:]
		length := q.head
		if q.begun {
			length = q.head[1:]
		}
		if len(length) < 4 {
			continue
		}
		q.rest = int(binary.BigEndian.Uint32(length)) - len(length)
		if !q.begun || strings.IndexByte("QSH", q.head[0]) >= 0 {
			n++
		}
		q.begun = true
		q.head = q.head[:0]
	}
	return n
}

// pipe copies, and calls note before each part that it passes on.
func (c *counter) pipe(from io.Reader, to io.WriteCloser, note func([]byte)) {
	defer to.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		note(buf[:n])
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// take returns the round trips since it was last called.
func (c *counter) take() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.trips
	c.trips = 0
	return n
}

// A beat takes one round trip, also if none was sent for a while, and nothing is asked for beforehand: each more would
// be another second with a server that is a second away.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	direct := place(t)
	beat(t, open(t, direct), join("a")) // which makes the table
	s, c := far(t, direct)
	conn := testkit.Must(s.db.Acquire(context.Background()))(t)
	conn.Release()
	c.take()
	beat(t, s, join("b"))
	if got := c.take(); got != 1 {
		t.Errorf("the first beat takes %d round trips", got)
	}
	beat(t, s, join("c"))
	if got := c.take(); got != 1 {
		t.Errorf("a later beat takes %d round trips", got)
	}
	// Else the pool pings a connection that was idle for a second.
	if ping := s.db.Config().ShouldPing; ping == nil || ping(t.Context(), pgxpool.ShouldPingParams{IdleDuration: time.Minute}) {
		t.Error("a beat takes another round trip if there was none for a while")
	}
}

// TestBeat_AnswerUnderWay: a gateway whose answer is still on its way keeps no other waiting. When it is lost with the
// connection, the beat was taken in once.
func TestBeat_AnswerUnderWay(t *testing.T) {
	t.Parallel()
	direct := place(t)
	near := open(t, direct)
	slow, c := far(t, direct)
	now := time.Now().UnixMilli()
	used := federation.Amounts{500, 5}
	told := join("slow")
	told.Join = false
	told.Booked = []federation.Booked{{Slot: now / 250, Used: used}}
	beat(t, near, join("near"))
	beat(t, slow, join("slow"))
	told.Epoch = near.epoch(t)

	c.answers.Lock()
	before := c.answered()
	lost := make(chan error)
	ctx, cut := context.WithCancel(t.Context())
	go func() {
		first := *told
		first.Seq = 2
		_, err := slow.Beat(ctx, "p", &first)
		lost <- err
	}()
	for c.answered() == before {
		time.Sleep(time.Millisecond)
	}
	for seq := int64(2); seq < 6; seq++ {
		next := join("near")
		next.Join = false
		next.Full = false
		next.Epoch = told.Epoch
		next.Seq = seq
		beat(t, near, next)
	}
	cut()
	if err := <-lost; err == nil {
		t.Error("an answer came that was held up")
	}
	c.answers.Unlock()

	told.Seq = 3
	r := beat(t, slow, told)
	if r.Status != federation.Granted || r.Used != used {
		t.Errorf("answered %s, used %v; want %v once", r.Status, r.Used, used)
	}
}

// answered is how often something came back from the server.
func (c *counter) answered() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.came
}

// epoch is that of the pool's account.
func (s *Store) epoch(t *testing.T) int64 {
	t.Helper()
	v := testkit.Must(s.Look(t.Context(), "p"))(t)
	return v.Epoch
}

// TestLimits_CutOff: the server notices within seconds if a gateway is cut off while a batch is on its way, when the transaction
// may have a row and is not idle.
func TestLimits_CutOff(t *testing.T) {
	t.Parallel()
	s := open(t, place(t))
	beat(t, s, join("a"))
	conn := testkit.Must(s.db.Acquire(t.Context()))(t)
	defer conn.Release()
	testkit.Must(s.lock(t.Context(), conn, "p"))(t)
	var seconds int
	testkit.OK(t, conn.QueryRow(t.Context(), `SELECT current_setting('tcp_keepalives_idle')::int
		+ current_setting('tcp_keepalives_interval')::int * current_setting('tcp_keepalives_count')::int`).Scan(&seconds))
	if seconds < 1 || seconds > 5 {
		t.Errorf("it notices after %d s", seconds)
	}
}

// TestTrips_Mixed: beside a gateway of another format a beat of a pool takes two round trips, also while gateways look for logs that it cannot read.
func TestTrips_Mixed(t *testing.T) {
	t.Parallel()
	direct := place(t)
	near := open(t, direct)
	s, way := far(t, direct)
	m := join("new")
	beat(t, s, m) // which makes the table
	testkit.Must(share(s, "o", "new", 1))(t)
	old := *join("old")
	old.Format = federation.Format - 1
	a := federation.NewAccount(s.rules, 0, federation.Options{Fresh: true})
	a.Beat(0, "", 1, &old)
	text := testkit.Must(a.Encode())(t)
	exec(t, s, "UPDATE llmgov_pools SET account = $1", text)
	s.clock = "1000::bigint"
	s.incarnation = "''"
	m.Seq++
	beat(t, s, m)
	hold(t, s, 1)
	for n := range 4 {
		if n == 3 {
			exec(t, near, "DROP TABLE llmgov_parts") // without which there is nothing to look for
		}
		s.fleet.look = time.Time{}
		way.take()
		m.Seq++
		beat(t, s, m)
		if got := way.take(); got != 2 {
			t.Errorf("a beat takes %d round trips", got)
		}
	}
}

// hole is a way to a server on which everything is lost while it is silent. What was under way by then is lost for good, as if
// it took minutes until it is sent again.
type hole struct {
	net.Listener
	t      *testing.T
	server string
	silent atomic.Bool
}

// throughHole opens a store by way of a hole.
func throughHole(t *testing.T, direct string) (*Store, *hole) {
	t.Helper()
	way := testkit.Must(url.Parse(direct))(t)
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	h := &hole{Listener: l, t: t, server: way.Host}
	go h.serve()
	way.Host = l.Addr().String()
	return open(t, way.String()), h
}

func (h *hole) serve() {
	for {
		client, err := h.Accept()
		if err != nil {
			return
		}
		h.t.Cleanup(func() { client.Close() })
		server, err := net.Dial("tcp", h.server)
		if err != nil {
			return
		}
		h.t.Cleanup(func() { server.Close() })
		lost := &atomic.Bool{}
		go h.pass(client, server, lost)
		go h.pass(server, client, lost)
	}
}

func (h *hole) pass(from, to net.Conn, lost *atomic.Bool) {
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		if h.silent.Load() {
			lost.Store(true)
		}
		gone := lost.Load()
		if err != nil {
			if !gone {
				to.Close()
			}
			return
		}
		if gone {
			continue
		}
		_, _ = to.Write(buf[:n])
	}
}

// TestSilent: after a time in which the server was silent, the next beat is answered, whatever has become of the connections of those
// that were not. A connection that is closed may hang for long, because nobody answers that either, and new ones do not wait for that.
func TestSilent(t *testing.T) {
	t.Parallel()
	s, way := throughHole(t, place(t))
	beat(t, s, join("a"))
	share := func(ctx context.Context) error {
		_, err := s.Share(ctx, []*parts.Beat{{Owner: "o", Instance: "a", Seq: 1}})
		return err
	}
	testkit.OK(t, share(t.Context()))
	hold(t, s, connections)
	way.silent.Store(true)
	for i := range connections {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		var err error
		switch i % 3 {
		case 0:
			_, err = s.Beat(ctx, "p", join("a"))
		case 1:
			_, err = s.Look(ctx, "p")
		case 2:
			err = share(ctx)
		}
		cancel()
		if err == nil {
			t.Fatal("a silent server has answered")
		}
	}
	way.silent.Store(false)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // less than a connection that is closed may hang
	defer cancel()
	if _, err := s.Beat(ctx, "p", join("a")); err != nil {
		t.Error(err)
	}
}

// hold makes a store have so many connections.
func hold(t *testing.T, s *Store, n int) {
	t.Helper()
	for range n {
		conn := testkit.Must(s.db.Acquire(t.Context()))(t)
		defer conn.Release()
	}
}
