package plugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"talon/host"
	"talon/internal/testkit"
)

// database is where the nodes of a test agree.
type database struct {
	mu            sync.Mutex
	current, next host.PluginSet
	last          int64
	modules       map[string][]byte
	nodes         map[string]*nodeOf
	answers       map[string]string
	answered      chan struct{} // closed and made again with each answer
	lost          error         // of reads of modules
}

// nodeOf is a node as its registry sees the others.
type nodeOf struct {
	*world
	db      *database
	name    string
	changed chan struct{}
	learns  bool // at once what is agreed
	away    bool // it cannot read the database
	stop    func()
}

func newDatabase() *database {
	return &database{modules: map[string][]byte{}, nodes: map[string]*nodeOf{}, answers: map[string]string{}, answered: make(chan struct{})}
}

// node makes a node that is not open yet.
func (d *database) node(t *testing.T, name string) *nodeOf {
	n := &nodeOf{world: newWorld(t), db: d, name: name, changed: make(chan struct{}, 1), learns: true}
	n.o.Nodes = n
	return n
}

// serve opens a node, which then answers.
func (n *nodeOf) serve() {
	n.t.Helper()
	n.mustOpen()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = n.others.followOthers(ctx)
	}()
	n.stop = sync.OnceFunc(func() { cancel(); <-done })
	n.t.Cleanup(n.stop)
	n.db.mu.Lock()
	n.db.nodes[n.name] = n
	n.db.mu.Unlock()
}

// again stops a node and opens it again.
func (n *nodeOf) again() {
	n.t.Helper()
	n.stop()
	n.db.mu.Lock()
	delete(n.db.nodes, n.name)
	n.db.mu.Unlock()
	n.close()
	n.serve()
}

func (n *nodeOf) PluginsChanged() <-chan struct{} { return n.changed }

func (n *nodeOf) Plugins(context.Context) (current, next host.PluginSet, err error) {
	n.db.mu.Lock()
	defer n.db.mu.Unlock()
	if n.away {
		return current, next, errors.New("away")
	}
	return n.db.current, n.db.next, nil
}

func (n *nodeOf) PluginModule(_ context.Context, sha string) ([]byte, error) {
	n.db.mu.Lock()
	defer n.db.mu.Unlock()
	wasm, ok := n.db.modules[sha]
	if !ok || n.db.lost != nil {
		return nil, errors.Join(n.db.lost, errors.New("not there"))
	}
	return wasm, nil
}

func (n *nodeOf) Answer(_ context.Context, number int64, problem string) error {
	d := n.db
	d.mu.Lock()
	defer d.mu.Unlock()
	if number == d.next.Number {
		d.answers[n.name] = problem
		close(d.answered)
		d.answered = make(chan struct{})
	}
	return nil
}

func (n *nodeOf) Propose(ctx context.Context, base int64, records []byte, modules map[string][]byte, keep []string) (int64, error) {
	d := n.db
	d.mu.Lock()
	defer d.mu.Unlock()
	if base != d.current.Number || d.next.Number != 0 {
		return 0, errors.New("changed meanwhile")
	}
	d.last++
	d.next = host.PluginSet{Number: d.last, Node: n.name, Records: records}
	maps.Copy(d.modules, modules)
	clear(d.answers)
	d.notify()
	for len(d.answers) < len(d.nodes) {
		answered := d.answered
		d.mu.Unlock()
		<-answered
		d.mu.Lock()
	}
	for name, problem := range d.answers {
		if problem != "" {
			d.next = host.PluginSet{}
			d.notify()
			return 0, fmt.Errorf("%w: node %s: %s", ErrRefused, name, problem)
		}
	}
	d.current, d.next = d.next, host.PluginSet{}
	for sha := range d.modules {
		if !strings.Contains(strings.Join(keep, " "), sha) {
			delete(d.modules, sha)
		}
	}
	for _, other := range d.nodes {
		if other.learns {
			other.Switch(d.current.Number)
		}
	}
	d.notify()
	return d.current.Number, nil
}

// notify wakes all nodes. REQUIRES: mu.
func (d *database) notify() {
	for _, n := range d.nodes {
		select {
		case n.changed <- struct{}{}:
		default:
		}
	}
}

// running says what runs: each plugin with its mode, number and module.
func (n *nodeOf) running() string {
	var b strings.Builder
	for _, s := range n.List() {
		fmt.Fprintf(&b, "%s %s", s.Name, s.Mode)
		if s.Running != nil {
			fmt.Fprintf(&b, " %d %.8s", s.Running.Generation, s.Running.SHA256)
		}
		fmt.Fprintf(&b, " earlier %d; ", len(s.Earlier))
	}
	return b.String()
}

// wantAll checks what is decided about an event, and that all nodes run the same.
func wantAll(t *testing.T, said string, nodes ...*nodeOf) {
	t.Helper()
	for _, n := range nodes {
		testkit.Eventually(t, "node "+n.name+" runs what the others run", func() bool { return n.running() == nodes[0].running() })
		n.want(said)
	}
}

// TestShared is the life of plugins that three nodes run: each change, made on any of them,
// is one of all, also after a restart.
func TestShared(t *testing.T) {
	d := newDatabase()
	a, b, c := d.node(t, "a"), d.node(t, "b"), d.node(t, "c")
	a.drop("open.wasm", accepting("1").wasm(t))
	a.serve()
	b.serve()
	c.drop("open.wasm", accepting("9").wasm(t)) // nobody follows this folder
	c.serve()
	wantAll(t, "open accept v1", a, b, c)

	two := accepting("2").wasm(t)
	if s, err := b.Swap(t.Context(), "open", two, nil); err != nil || s.Running.Generation != 2 {
		t.Fatalf("%+v, %v", s, err)
	}
	wantAll(t, "open accept v2", b, a, c)
	if _, err := a.Swap(t.Context(), "guard", rejecting("x").wasm(t), nil); err != nil {
		t.Fatal(err)
	}
	wantAll(t, "guard reject x", a, b, c)
	if s, err := c.SetMode(t.Context(), "guard", "off"); err != nil || s.Mode != "off" {
		t.Fatalf("%+v, %v", s, err)
	}
	wantAll(t, "open accept v2", c, a, b)
	if s, err := a.SetMode(t.Context(), "guard", "enforce"); err != nil || s.Running.Generation != 3 {
		t.Fatalf("%+v, %v", s, err)
	}
	wantAll(t, "guard reject x", a, b, c)
	if _, err := b.SetMode(t.Context(), "guard", "shadow"); err != nil {
		t.Fatal(err)
	}
	wantAll(t, "open accept v2", b, a, c)
	if s, err := c.Rollback(t.Context(), "open", 1); err != nil || s.Running.Generation != 3 {
		t.Fatalf("%+v, %v", s, err)
	}
	wantAll(t, "open accept v1", c, a, b)
	c.again()
	b.again()
	wantAll(t, "open accept v1", a, b, c)
	// A node that has nothing on its disk has all the same what it can return to.
	fresh := d.node(t, "d")
	fresh.serve()
	if _, err := fresh.Rollback(t.Context(), "open", 1); err != nil {
		t.Fatal(err)
	}
	wantAll(t, "open accept v2", fresh, a, b, c)
	if got, _ := os.ReadFile(c.file("open.wasm")); string(got) == string(two) {
		t.Error("a folder that nobody follows was written")
	}
}

// TestSharedRefused has one node that cannot run what the others can: nobody does, and who
// asked for it learns why.
func TestSharedRefused(t *testing.T) {
	d := newDatabase()
	a, b, c := d.node(t, "a"), d.node(t, "b"), d.node(t, "c")
	a.drop("open.wasm", accepting("1").wasm(t))
	c.o.Limits.Fuel = 1000
	for _, n := range []*nodeOf{a, b, c} {
		n.serve()
	}
	// The side-car of a name that is new is that of the folder here.
	a.drop("guard.toml", []byte("[budgets]\nfuel = 5_000"))
	_, err := a.Swap(t.Context(), "guard", rejecting("x").wasm(t), nil)
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "node c: plugin guard: ") || !strings.Contains(err.Error(), "fuel") {
		t.Fatalf("%v", err)
	}
	wantAll(t, "open accept v1", a, b, c)
	// What others had made ready is closed, and the next one runs.
	testkit.Eventually(t, "what is not wanted is closed", func() bool {
		b.others.(*shared).mu.Lock()
		defer b.others.(*shared).mu.Unlock()
		return b.others.(*shared).next == nil
	})
	_ = os.Remove(a.file("guard.toml"))
	if _, err := a.Swap(t.Context(), "guard", rejecting("x").wasm(t), nil); err != nil {
		t.Fatal(err)
	}
	wantAll(t, "guard reject x", a, b, c)
	if _, err := b.Swap(t.Context(), "guard", []byte("broken"), nil); !errors.Is(err, ErrRefused) {
		t.Fatalf("%v", err)
	}
	wantAll(t, "guard reject x", a, b, c)
}

// TestSharedSwitch checks when a node changes: not when the others have agreed, but when it
// learns of it in the order of commits; and one that cannot run it then decides nothing.
func TestSharedSwitch(t *testing.T) {
	d := newDatabase()
	a, b := d.node(t, "a"), d.node(t, "b")
	a.drop("open.wasm", accepting("1").wasm(t))
	a.serve()
	b.serve()
	d.mu.Lock()
	b.learns = false
	d.mu.Unlock()
	if _, err := a.Swap(t.Context(), "open", accepting("2").wasm(t), nil); err != nil {
		t.Fatal(err)
	}
	a.want("open accept v2")
	b.want("open accept v1") // it has not begun a transaction since
	b.Switch(2)
	b.want("open accept v2")

	// It hears of the third generation for the first time when that decides.
	d.mu.Lock()
	delete(d.nodes, "b")
	b.away, d.lost = true, errors.New("the disk of the database is on fire")
	d.mu.Unlock()
	if _, err := a.Swap(t.Context(), "open", accepting("3").wasm(t), nil); err == nil {
		t.Fatal("a has loaded what is not to be had")
	}
	d.mu.Lock()
	d.lost = nil
	d.mu.Unlock()
	if _, err := a.Swap(t.Context(), "open", accepting("3").wasm(t), nil); err != nil {
		t.Fatal(err)
	}
	d.mu.Lock()
	b.away, d.lost = false, errors.New("the disk of the database is on fire")
	number := d.current.Number
	d.mu.Unlock()
	b.Switch(number)
	if _, err := b.Admit(t.Context(), item(1), nil, now); err == nil {
		t.Fatal("it decides by another generation than the others")
	}
	testkit.Eventually(t, "it says why", func() bool {
		return len(b.Health()) == 1 && strings.Contains(b.Health()[0], "on fire")
	})
	if _, err := b.Query(t.Context(), &host.Query{}); err == nil {
		t.Fatal("queries are answered")
	}
	d.mu.Lock()
	d.lost = nil
	d.mu.Unlock()
	b.changed <- struct{}{}
	testkit.Eventually(t, "it runs what the others run", func() bool { return len(b.Health()) == 0 })
	wantAll(t, "open accept v3", a, b)

	// A node that cannot run it when it starts says so as well, and recovers.
	late := d.node(t, "late")
	d.mu.Lock()
	d.lost = errors.New("the disk of the database is on fire")
	d.mu.Unlock()
	late.serve()
	if list := late.Health(); len(list) != 1 || !strings.Contains(list[0], "on fire") {
		t.Errorf("%q", list)
	}
	d.mu.Lock()
	d.lost = nil
	d.mu.Unlock()
	late.changed <- struct{}{}
	testkit.Eventually(t, "it runs what the others run", func() bool { return len(late.Health()) == 0 })
	wantAll(t, "open accept v3", a, late)
}

// TestSharedFolder has the folder of one node followed: what is dropped there runs on all, and
// what is changed on another is written there.
func TestSharedFolder(t *testing.T) {
	d := newDatabase()
	a, b := d.node(t, "a"), d.node(t, "b")
	a.o.Watch = true
	one, two := accepting("1").wasm(t), accepting("2").wasm(t)
	a.drop("open.wasm", one)
	a.serve()
	b.serve()
	a.drop("guard.wasm", rejecting("x").wasm(t))
	a.change("guard.toml", []byte("place = 5"))
	wantAll(t, "guard reject x", a, b)
	a.change("guard.wasm", []byte("broken"))
	wantAll(t, "guard reject x", a)
	b.want("guard reject x")
	if q := a.of("guard").Quarantine; q == nil {
		t.Error("what was refused is not said")
	}
	a.remove("guard.wasm")
	a.remove("guard.toml")
	a.look()
	wantAll(t, "open accept v1", a, b)

	if _, err := b.Swap(t.Context(), "open", two, nil); err != nil {
		t.Fatal(err)
	}
	wantAll(t, "open accept v2", b, a)
	if got, err := os.ReadFile(a.file("open.wasm")); err != nil || string(got) != string(two) {
		t.Errorf("the folder that is followed has another module: %v", err)
	}
	a.look()
	wantAll(t, "open accept v2", a, b)

	// While a is away, b goes on; a's folder is brought up to date, but for what somebody has
	// put there meanwhile.
	a.stop()
	d.mu.Lock()
	delete(d.nodes, "a")
	d.mu.Unlock()
	a.close()
	if _, err := b.Rollback(t.Context(), "open", 1); err != nil {
		t.Fatal(err)
	}
	a.drop("guard.wasm", rejecting("y").wasm(t))
	a.serve()
	a.look()
	wantAll(t, "guard reject y", a, b)
	if got, err := os.ReadFile(filepath.Join(a.o.Dir, "open.wasm")); err != nil || string(got) != string(one) {
		t.Errorf("the folder has not got what was changed elsewhere: %v", err)
	}

	// What another node refuses is in quarantine here.
	b.o.Limits.Fuel = 1000
	b.again()
	a.change("guard.toml", []byte("[budgets]\nfuel = 5_000"))
	a.wantRefused("guard", "node b: ")
	wantAll(t, "guard reject y", a)
	b.want("guard reject y")
}
