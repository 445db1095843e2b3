package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"talon/internal/testkit"
)

var server testkit.Postgres

func TestMain(m *testing.M) {
	if url := os.Getenv("TALON_TEST_NODE"); url != "" {
		if dir := os.Getenv("TALON_TEST_REPOSITORIES"); dir != "" {
			pausedWriter(url, dir)
		} else {
			pausedNode(url)
		}
		return
	}
	code := m.Run()
	server.Stop()
	os.Exit(code)
}

// forever is the lease of sessions that must not end because the machine pauses.
const forever = time.Hour

// database returns a connection string to an empty schema.
func database(t *testing.T) string {
	t.Helper()
	url := server.URL(t)
	exec1(t, url, `CREATE SCHEMA `+url[strings.LastIndex(url, "=")+1:])
	return url
}

func exec1(t *testing.T, url, sql string, args ...any) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func join(t *testing.T, url, name string, lease time.Duration) *Cluster {
	t.Helper()
	c, err := Join(t.Context(), url, Options{Name: name, Lease: lease, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func lock(t *testing.T, c *Cluster, name string) *HeldLock {
	t.Helper()
	h, err := c.Lock(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// endSession ends the connection of a node, as a network does.
func endSession(t *testing.T, url, node string) {
	t.Helper()
	exec1(t, url, `SELECT pg_terminate_backend(pid) FROM node WHERE name = $1`, node)
}

// TestLock: one node at a time has a lock, and who waits gets it.
func TestLock(t *testing.T) {
	url := database(t)
	a, b := join(t, url, "a", forever), join(t, url, "b", forever)
	var inside, entered atomic.Int32
	var all sync.WaitGroup
	for _, c := range []*Cluster{a, b} {
		all.Go(func() {
			for range 30 {
				h, err := c.Lock(t.Context(), "repository")
				if err != nil {
					t.Error(err)
					return
				}
				if inside.Add(1) != 1 {
					t.Error("two nodes have one lock")
				}
				entered.Add(1)
				inside.Add(-1)
				h.Unlock()
				h.Unlock()
			}
		})
	}
	all.Wait()
	if entered.Load() != 60 {
		t.Errorf("the lock was had %d times", entered.Load())
	}
	held := lock(t, a, "repository")
	other := lock(t, b, "another") // is not in its way
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.EOF)
	if h, err := b.Lock(ctx, "repository"); !errors.Is(err, io.EOF) {
		t.Errorf("the context is over: %v, %v", h, err)
	}
	if over, err := other.Confirm(held.Number()); over || err != nil {
		t.Errorf("a session that lives is over: %v, %v", over, err)
	}
	if held.Err() != nil {
		t.Error(held.Err())
	}
}

// TestSessionEnds: a lost connection is a lost session, whose locks are free, and the next
// one has a higher number.
func TestSessionEnds(t *testing.T) {
	url := database(t)
	a, b := join(t, url, "a", forever), join(t, url, "b", forever)
	held := lock(t, a, "repository")
	ctx, end := held.Context(t.Context())
	defer end()
	endSession(t, url, "a")
	taken := lock(t, b, "repository")
	// It does not know yet, but learns of it from whatever it asks.
	if _, err := held.Confirm(0); !errors.Is(err, ErrLost) && held.Err() == nil {
		t.Errorf("the session is lost: %v", err)
	}
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), ErrLost) || !errors.Is(held.Err(), ErrLost) {
		t.Errorf("the session is lost: %v, %v", context.Cause(ctx), held.Err())
	}
	held.Unlock() // nothing that anybody has
	again := lock(t, a, "another")
	if again.Number() <= held.Number() || again.Number() == taken.Number() {
		t.Errorf("sessions %d, then %d, beside %d", held.Number(), again.Number(), taken.Number())
	}
	for number, want := range map[int64]bool{held.Number(): true, again.Number(): false, taken.Number(): false} {
		if over, err := taken.Confirm(number); over != want && number != taken.Number() || err != nil {
			t.Errorf("session %d is over: %v, %v; want %v", number, over, err, want)
		}
	}
	list, err := b.Nodes(t.Context())
	if err != nil || len(list) != 2 || list[0].Number != again.Number() || !list[0].Alive {
		t.Errorf("nodes %+v, %v", list, err)
	}
}

// TestServerRestarts: every node has a session again.
func TestServerRestarts(t *testing.T) {
	url := database(t)
	a, b := join(t, url, "a", forever), join(t, url, "b", forever)
	held := lock(t, a, "repository")
	server.Restart(t)
	a.SetState(Ready) // it learns of it when it asks for something
	b.SetState(Ready)
	for i, c := range []*Cluster{a, b} {
		h := lock(t, c, fmt.Sprint("repository ", i))
		if h.Number() <= held.Number() {
			t.Errorf("session %d after %d", h.Number(), held.Number())
		}
	}
	if !errors.Is(held.Err(), ErrLost) {
		t.Errorf("a lock of before: %v", held.Err())
	}
}

func TestNames(t *testing.T) {
	url := database(t)
	a := join(t, url, "a", forever)
	o := Options{Name: "a", Lease: time.Millisecond, Log: slog.New(slog.DiscardHandler)}
	if _, err := Join(t.Context(), url, o); !errors.Is(err, ErrNameInUse) {
		t.Errorf("a second a: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Lock(t.Context(), "repository"); err == nil {
		t.Error("a node that has left gets a lock")
	}
	join(t, url, "a", forever)
	for _, name := range []string{"", ".", "a/b", "ä", "a b", strings.Repeat("a", 65)} {
		if CheckName(name) == nil {
			t.Errorf("%q is a name", name)
		}
	}
	if err := CheckName("relay-1.example.org:7334"); err != nil {
		t.Error(err)
	}
}

func TestNodes(t *testing.T) {
	url := database(t)
	if list, err := Nodes(t.Context(), url); list != nil || err != nil {
		t.Errorf("nobody has joined: %v, %v", list, err)
	}
	a := join(t, url, "a", forever)
	join(t, url, "b", forever)
	a.SetState(Draining)
	testkit.Eventually(t, "the others know what a does", func() bool {
		list, err := Nodes(t.Context(), url)
		return err == nil && len(list) == 2 && list[0].Name == "a" && list[0].State == Draining && list[1].State == Starting && list[1].Alive
	})
	exec1(t, url, `UPDATE node SET seen = seen - interval '2 hours' WHERE name = 'b'`)
	list, err := Nodes(t.Context(), url)
	if err != nil || len(list) != 2 || list[1].Alive || list[1].Unseen < time.Hour {
		t.Errorf("b was lost: %+v, %v", list, err)
	}
}

// TestRole: one node has a role at a time; when it leaves, or its session is lost, another
// has it.
func TestRole(t *testing.T) {
	url := database(t)
	nodes := map[string]*Cluster{"a": join(t, url, "a", forever), "b": join(t, url, "b", forever)}
	var have atomic.Int32
	began := make(chan string)
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer all.Wait()
	defer cancel()
	for name, c := range nodes {
		all.Go(func() {
			err := c.RunAs(ctx, "sync", func(ctx context.Context) error {
				if have.Add(1) != 1 {
					t.Error("two nodes have one role")
				}
				select {
				case began <- name:
				case <-t.Context().Done():
				}
				<-ctx.Done()
				have.Add(-1)
				return ctx.Err()
			})
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	first := testkit.Receive(t, "one has the role", began)
	testkit.Eventually(t, "others know who has it", func() bool {
		list, err := Nodes(t.Context(), url)
		return err == nil && len(list) == 2 && strings.Join(append(list[0].Roles, list[1].Roles...), "") == "sync"
	})
	if err := nodes[first].Close(); err != nil {
		t.Fatal(err)
	}
	second := testkit.Receive(t, "the other has the role", began)
	if second == first {
		t.Errorf("%s has left, and has the role", first)
	}
	// The node alone gets the role again with another session. have is not asked here: a node that
	// loses its session learns of it later than others.
	endSession(t, url, second)
	nodes[second].SetState(Ready)
	if third := testkit.Receive(t, "the role is taken again", began); third != second {
		t.Errorf("%s has the role", third)
	}
}

// TestAsk: what one node asks about a role, the one that has it answers.
func TestAsk(t *testing.T) {
	url := database(t)
	a, b := join(t, url, "a", forever), join(t, url, "b", forever)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	answers := make(chan string)
	all.Go(func() {
		_ = b.Answer(ctx, func(_ context.Context, request []byte) []byte {
			select {
			case prefix := <-answers:
				return append([]byte(prefix), request...)
			case <-ctx.Done():
				return nil
			}
		})
	})
	if _, err := a.Ask(ctx, "sync", nil); err == nil || !strings.Contains(err.Error(), "no node has the role sync") {
		t.Errorf("nobody has the role: %v", err)
	}
	all.Go(func() {
		_ = b.RunAs(ctx, "sync", func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
	})
	testkit.Eventually(t, "the other knows who has the role", func() bool {
		n, err := a.Who(ctx, "sync")
		return err == nil && n.Name == "b"
	})
	if a.Has("sync") || !b.Has("sync") {
		t.Error("b has the role, not a")
	}
	ask := func(request string) <-chan string {
		came := make(chan string, 1)
		go func() {
			answer, err := a.Ask(ctx, "sync", []byte(request))
			came <- fmt.Sprint(string(answer), err)
		}()
		return came
	}
	waiting := func() (n int) {
		err := a.session.exchange(func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, `SELECT count(*) FROM call`).Scan(&n)
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	one := ask("one")
	testkit.Eventually(t, "it is asked", func() bool { return waiting() == 1 })
	b.renewNow()
	answers <- "answer to "
	if got := testkit.Receive(t, "an answer", one); got != "answer to one<nil>" {
		t.Errorf("%q", got)
	}
	if n := waiting(); n != 0 {
		t.Errorf("%d requests are left", n)
	}
	two := ask("two")
	testkit.Eventually(t, "it is asked", func() bool { return waiting() == 1 })
	exec1(t, url, `UPDATE node SET seen = seen - interval '2 hours' WHERE name = 'b'`)
	if got := testkit.Receive(t, "an error", two); !strings.Contains(got, "node b, which has the role sync, was lost") {
		t.Errorf("%q", got)
	}
}

// TestRoleFails: what fails begins again.
func TestRoleFails(t *testing.T) {
	a := join(t, database(t), "a", forever)
	terms := 0
	err := a.RunAs(t.Context(), "sync", func(context.Context) error {
		if terms++; terms == 1 {
			return io.EOF
		}
		return nil
	})
	if err != nil || terms != 2 || len(a.Roles()) != 0 {
		t.Errorf("%d terms, %v, %q", terms, err, a.Roles())
	}
}

// TestPaused stops the process of a node that has a lock: another gets it, and the first
// knows that it is lost when it goes on, before it has asked anybody.
func TestPaused(t *testing.T) {
	url := database(t)
	b := join(t, url, "b", 2*time.Second)
	other := startNode(t, "TALON_TEST_NODE="+url)
	other.wantLine("locked")
	began := time.Now()
	other.pause()
	h := lock(t, b, "repository")
	t.Logf("the lock of a paused node was taken over after %v, with a lease of 2 s", time.Since(began).Round(time.Millisecond))
	other.goOn()
	other.wantLine(ErrLost.Error())
	other.wantLine("again true")
	h.Unlock()
}

// nodeProcess is a node in a process of its own, which a test can pause.
type nodeProcess struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.Writer
	lines *bufio.Reader
}

// startNode starts this test binary as a node, whose part the environment says.
func startNode(t *testing.T, env ...string) *nodeProcess {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &nodeProcess{t, cmd, in, bufio.NewReader(out)}
}

// wantLine checks that the next line that the node prints has a text.
func (n *nodeProcess) wantLine(text string) {
	n.t.Helper()
	if line, err := n.lines.ReadString('\n'); !strings.Contains(line, text) {
		n.t.Fatalf("the other node says %q, %v; want %q", line, err, text)
	}
}

func (n *nodeProcess) pause() { n.signal(syscall.SIGSTOP) }

// goOn ends a pause, and what the node itself waits for.
func (n *nodeProcess) goOn() {
	n.t.Helper()
	if _, err := io.WriteString(n.in, "go on\n"); err != nil {
		n.t.Fatal(err)
	}
	n.signal(syscall.SIGCONT)
}

func (n *nodeProcess) signal(s os.Signal) {
	n.t.Helper()
	if err := n.cmd.Process.Signal(s); err != nil {
		n.t.Fatal(err)
	}
}

// pausedNode is the process that TestPaused stops.
func pausedNode(url string) {
	c, err := Join(context.Background(), url, Options{Name: "paused", Lease: 2 * time.Second, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	h, err := c.Lock(context.Background(), "repository")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("locked")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	fmt.Println(h.Err())
	again, err := c.Lock(context.Background(), "another")
	fmt.Println("again", err == nil && again.Number() > h.Number())
	_ = c.Close()
}
