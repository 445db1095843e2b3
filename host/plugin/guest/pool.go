package guest

import (
	"bytes"
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"talon/host"
)

const (
	// surplusTime is how long an instance beyond those that are kept may be idle.
	surplusTime = time.Minute

	// maxQueue is how many callers may wait for an instance.
	maxQueue = 256
)

// pool hands out instances to one caller each. A place holds an instance that is
// idle or with a caller, or one that is being made.
type pool struct {
	keep  int // idle instances that are not closed
	max   int // places
	close func(*instance)
	clock func() time.Duration // that instances are idle by

	mu      sync.Mutex  // guards the fields below
	idle    []*instance // the last used at the end
	slots   int         // that are taken
	waiting list.List   // of *turn, in the order in which they came
	trimmer *time.Timer
	drained chan struct{} // closed when no place is taken any more; nil: the pool is in use
}

// Errors of a caller that gets no instance.
var (
	errClosed = errors.New("the module is closed")
	errBusy   = fmt.Errorf("%d others wait for one", maxQueue)
)

// waiter is a caller that waits.
type waiter struct {
	came chan *instance // receives one, or nil for a place
	over bool           // it has been given something
}

func newPool(keep, limit int, close func(*instance), clock func() time.Duration) *pool {
	return &pool{keep: keep, max: limit, close: close, clock: clock}
}

// tryGet returns an idle instance, nil if there is none.
func (p *pool) tryGet() *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.takeIdle()
}

// takeIdle is tryGet. REQUIRES: mu.
func (p *pool) takeIdle() *instance {
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	inst := p.idle[n-1]
	p.idle[n-1] = nil
	p.idle = p.idle[:n-1]
	return inst
}

// get returns an idle instance, or nil if the caller may make one, which it then
// puts or gives up. It waits for either until ctx is done, within wait.
func (p *pool) get(ctx context.Context, wait func(func())) (*instance, error) {
	p.mu.Lock()
	if inst := p.takeIdle(); inst != nil {
		p.mu.Unlock()
		return inst, nil
	}
	if p.drained != nil {
		p.mu.Unlock()
		return nil, errClosed
	}
	if p.slots < p.max {
		p.slots++
		p.mu.Unlock()
		return nil, nil
	}
	if p.waiting.Len() == maxQueue {
		p.mu.Unlock()
		return nil, errBusy
	}
	t := &waiter{came: make(chan *instance, 1)}
	at := p.waiting.PushBack(t)
	p.mu.Unlock()
	var inst *instance
	var err error
	wait(func() {
		select {
		case inst = <-t.came:
		case <-ctx.Done():
			err = ctx.Err()
		}
	})
	if err == nil {
		return inst, nil
	}
	p.mu.Lock()
	given := t.over
	if !given {
		p.waiting.Remove(at)
	}
	p.mu.Unlock()
	if !given {
		return nil, err
	}
	if inst := <-t.came; inst != nil {
		p.put(inst)
	} else {
		p.giveUp()
	}
	return nil, err
}

// next returns who has waited the longest, nil if nobody waits. REQUIRES: mu.
func (p *pool) next() *waiter {
	first := p.waiting.Front()
	if first == nil {
		return nil
	}
	t := p.waiting.Remove(first).(*waiter)
	t.over = true
	return t
}

// put takes an instance back.
func (p *pool) put(inst *instance) {
	p.mu.Lock()
	switch t := p.next(); {
	case t != nil:
		t.came <- inst
	case p.drained != nil:
		p.mu.Unlock()
		p.close(inst)
		p.giveUp()
		return
	default:
		p.idle = append(p.idle, inst)
		if len(p.idle) > p.keep && p.trimmer == nil {
			p.trimmer = time.AfterFunc(surplusTime, p.trim)
		}
	}
	p.mu.Unlock()
}

// giveUp says that the caller's place holds no instance.
func (p *pool) giveUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.next(); t != nil {
		t.came <- nil
		return
	}
	p.free(1)
}

// free frees places. REQUIRES: mu.
func (p *pool) free(n int) {
	if p.slots -= n; n > 0 && p.slots == 0 && p.drained != nil {
		close(p.drained)
	}
}

// reserve takes a place for an instance that nobody waits for, if none is idle and
// there is room.
func (p *pool) reserve() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) > 0 || p.slots == p.max || p.drained != nil {
		return false
	}
	p.slots++
	return true
}

// trim closes instances beyond those that are kept that have been idle for long.
func (p *pool) trim() {
	p.mu.Lock()
	p.trimmer = nil
	n, now := 0, p.clock()
	for len(p.idle)-n > p.keep && now-p.idle[n].call.ended >= surplusTime {
		n++
	}
	surplus := slices.Clone(p.idle[:n])
	p.idle = append(p.idle[:0], p.idle[n:]...)
	clear(p.idle[len(p.idle):cap(p.idle)])
	if len(p.idle) > p.keep {
		p.trimmer = time.AfterFunc(surplusTime-(now-p.idle[0].call.ended), p.trim)
	}
	p.mu.Unlock()
	for _, inst := range surplus {
		p.close(inst)
		p.giveUp()
	}
}

// drain closes every instance, as soon as it is not in use. It returns false if ctx
// was done before: what is in use then is closed by who uses it.
func (p *pool) drain(ctx context.Context) bool {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	if p.trimmer != nil {
		p.trimmer.Stop()
		p.trimmer = nil
	}
	if p.drained == nil {
		p.drained = make(chan struct{})
		if p.slots == 0 {
			close(p.drained)
		}
	}
	p.mu.Unlock()
	for _, inst := range idle {
		p.close(inst)
		p.giveUp()
	}
	select {
	case <-p.drained:
		return true
	case <-ctx.Done():
		return false
	}
}

const (
	// idleVersion changes when what is kept of an idle module does.
	idleVersion = 1

	idleFile = "idle"
	maxIdle  = 16 // configurations of one module
)

// idle is what a module said as it was configured that it passes every request: all that
// is needed of it until its configuration changes. A later start makes no instance to hear
// it again.
type idle struct {
	Key     string           `json:"key"`
	Imports []string         `json:"imports"`
	About   host.Description `json:"about"`
}

// idleKey stands for all that the answer depends on besides the module: what it is given,
// within which bounds, and what this host reads of it. A field that a description gets
// makes other keys.
func (m *Module) idleKey() string {
	bounds := fmt.Sprintf("%d %#v %#v %#v", idleVersion, host.Description{}, m.budgets, m.limits)
	return fmt.Sprintf("%x", sha256.Sum256(append([]byte(bounds), m.config...)))
}

// readIdle returns what is kept in the folder of a module's code, the newest first. What
// cannot be read is not there.
func readIdle(dir string) (list []idle) {
	text, err := os.ReadFile(filepath.Join(dir, idleFile))
	if err != nil || json.Unmarshal(text, &list) != nil {
		return nil
	}
	return list
}

// recallIdle makes of m a module that nobody calls, if it is kept that it is one as it is
// configured, that it has passed its self-test, and if it may import what it imports.
func (m *Module) recallIdle(o *Options) bool {
	if o.CacheDir == "" {
		return false
	}
	dir, key := codeDir(o.CacheDir, o.SHA256), m.idleKey()
	list := readIdle(dir)
	at := slices.IndexFunc(list, func(k idle) bool { return k.Key == key })
	if at < 0 || !newSelfTestStamp(dir, m).exists() {
		return false
	}
	for _, name := range list[at].Imports {
		if _, ok := capabilities[name]; !ok || !o.Grants(name) || !slices.Contains(m.manifest.Capabilities, name) {
			return false
		}
	}
	m.imports, m.about, m.functions = list[at].Imports, list[at].About, nil
	m.code = &code{dir: dir}
	m.pool.drain(context.Background())
	return true
}

// maxIdle keeps what the module has said, if it asked the host for nothing before: then it
// says the same again.
func (m *Module) keepIdle() {
	if m.code == nil || m.asked {
		return
	}
	list := append([]idle{{m.idleKey(), m.imports, m.about}}, readIdle(m.code.dir)...)
	text, err := json.Marshal(list[:min(len(list), maxIdle)])
	if err == nil {
		err = writeWhole(filepath.Join(m.code.dir, idleFile), append(bytes.TrimSpace(text), '\n'))
	}
	if err != nil {
		m.log.Debug("it is not kept that a plugin is idle", "module", m.name, "err", err)
	}
}
